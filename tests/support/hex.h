// Octets written as hexadecimal text, as the documents write them: "00164147 0000 00 00".
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::test {

namespace detail {

/// 0..15, or -1 for white space. Anything else is a mistake in the test and aborts.
inline int hex_digit(char c, std::string_view text) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c == ' ' || c == '\n' || c == '\t' || c == '\r') return -1;
  std::fprintf(stderr, "hex(): '%c' is no hexadecimal digit in \"%.*s\"\n", c,
               static_cast<int>(text.size()), text.data());
  std::abort();
}

}  // namespace detail

/// The octets of `text`: pairs of digits of either case, with white space anywhere.
/// An odd number of digits or any other character aborts the test program.
inline std::vector<std::uint8_t> hex(std::string_view text) {
  std::vector<std::uint8_t> octets;
  int high = -1;
  for (const char c : text) {
    const int digit = detail::hex_digit(c, text);
    if (digit < 0) continue;
    if (high < 0) {
      high = digit;
    } else {
      octets.push_back(static_cast<std::uint8_t>(high * 16 + digit));
      high = -1;
    }
  }
  if (high >= 0) {
    std::fprintf(stderr, "hex(): odd number of digits in \"%.*s\"\n", static_cast<int>(text.size()),
                 text.data());
    std::abort();
  }
  return octets;
}

/// The octets of `text` as its characters.
inline std::vector<std::uint8_t> ascii(std::string_view text) {
  return {text.begin(), text.end()};
}

/// `octets` as lower-case text in groups of four, "00164147 00000000 0000". Comparing these rather
/// than the octets makes a failing test show where they part.
inline std::string to_hex(std::span<const std::uint8_t> octets) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(octets.size() * 9 / 4 + 1);
  for (std::size_t i = 0; i < octets.size(); ++i) {
    if (i > 0 && i % 4 == 0) text += ' ';
    text += kDigits[octets[i] >> 4];
    text += kDigits[octets[i] & 15];
  }
  return text;
}

/// The pieces one after the other.
inline std::vector<std::uint8_t> join(std::initializer_list<std::span<const std::uint8_t>> pieces) {
  std::vector<std::uint8_t> octets;
  for (const auto& piece : pieces) octets.insert(octets.end(), piece.begin(), piece.end());
  return octets;
}

}  // namespace weft::test

// Clock, errors and sizes as text.
#include "measure/basics.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>

namespace weft::measure {

void fail_errno(std::string_view what) {
  fail("{}: {}", what, std::strerror(errno));
}

std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

std::string size_text(std::uint64_t octets) {
  constexpr std::uint64_t kKi = 1024;
  if (octets >= kKi * kKi && octets % (kKi * kKi) == 0) return fmt::format("{} MiB", octets >> 20);
  if (octets >= kKi && octets % kKi == 0) return fmt::format("{} KiB", octets >> 10);
  return fmt::format("{} B", octets);
}

std::optional<std::uint64_t> parse_size(std::string_view text, std::uint64_t octets_max) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || value == 0 || value > octets_max) return std::nullopt;
  const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  const unsigned shift = suffix == "K" ? 10 : suffix == "M" ? 20 : 0;
  if ((shift == 0 && !suffix.empty()) || value > octets_max >> shift) return std::nullopt;
  return value << shift;
}

}  // namespace weft::measure

// The settings weft reads from the environment: one table for the libraries and for the tools.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

/// One WEFT_* variable. All texts are literals and live for ever.
struct Setting {
  std::string_view name;     ///< "WEFT_CRC"
  /// "on|off"; a range of whole numbers "1..600000", both ends in; "auto|/PATH", where the last
  /// stands for every text that begins with a slash; "none|PORTS", where the last stands for ports
  /// and ranges of ports with commas between, "6379,7000-7010"; "any|ADDRESSES", addresses and
  /// prefixes of them, "10.0.0.0/8,fd00::/8"; "any|NAMES", names of programs, "nginx,curl".
  std::string_view values;
  std::string_view initial;  ///< what holds when the variable is not set; one of `values`
  std::string_view help;     ///< one line for people
};

/// Every variable there is. An unknown WEFT_* variable is an error wherever settings are read, so
/// that a misspelt one cannot be ignored in silence.
inline constexpr std::array kSettings{
    Setting{"WEFT_PERSONA", "iwarp|ib", "iwarp",
            "how devices present themselves; ib: as RoCE, connected by ibv_modify_qp"},
    Setting{"WEFT_ENGINE", "thread|inline", "thread",
            "who runs the protocol: a background thread, or the caller's own calls"},
    //= MPA-14
    //= MPA-19
    // Off only by this explicit request; TCP's own checksum is weaker than CRC32C.
    Setting{"WEFT_CRC", "on|off", "on",
            "off: do not ask for CRC32C (it is used all the same when the peer asks)"},
    Setting{"WEFT_MARKERS", "on|off", "off", "on: ask the peer for markers in what it sends"},
    Setting{"WEFT_MPA_REVISION", "1|2", "2",
            "revision of the MPA Request; 2 negotiates read depths (RFC 6581)"},
    Setting{"WEFT_PEER_TO_PEER", "on|off", "on",
            "on: the side that connects sends a ready-to-receive message, so either may go first"},
    Setting{"WEFT_RTR", "any|read|write|send", "any",
            "kinds of that message to offer and to take; any is write or read"},
    Setting{"WEFT_STARTUP_TIMEOUT_MS", "1..600000", "10000",
            "longest time a connection may take to start, in milliseconds"},
    Setting{"WEFT_STRICT_RECEIVE", "on|off", "off",
            "on: a message without a posted receive ends the connection instead of waiting"},
    Setting{"WEFT_COMPLETE", "sent|placed", "sent",
            "when a Send or Write is done; placed: when the peer has it, or refuses it"},
    Setting{"WEFT_VERBS_BEHIND", "auto|off|/PATH", "auto",
            "the libibverbs whose devices are listed behind weft's; auto: the machine's own"},
    Setting{"WEFT_IWARP_PORT", "none|PORTS", "none",
            "sockets that listen on these ports, or connect to them, use iWARP (--sockets)"},
    Setting{"WEFT_IWARP_ADDRESS", "any|ADDRESSES", "any",
            "only those that listen at these addresses or prefixes, or connect to them"},
    Setting{"WEFT_IWARP_PROGRAM", "any|NAMES", "any",
            "only those of programs of these names; others keep plain TCP"},
    Setting{"WEFT_TCP_FALLBACK", "on|off", "on",
            "on: connecting to such a port where nobody speaks iWARP is done by TCP"},
};

inline constexpr std::string_view kSettingPrefix = "WEFT_";

/// The setting called `name`, or nullptr. Pure.
constexpr const Setting* find_setting(std::string_view name) {
  for (const Setting& setting : kSettings) {
    if (setting.name == name) return &setting;
  }
  return nullptr;
}

/// Whether `value` is ports and ranges of them with commas between. Pure.
constexpr bool is_ports(std::string_view value) {
  constexpr std::uint32_t kPortMax = 65535;
  std::uint32_t numbers[2] = {0, 0};
  std::size_t which = 0;
  for (std::size_t i = 0; i <= value.size(); ++i) {
    const char c = i < value.size() ? value[i] : ',';
    std::uint32_t& number = numbers[which];
    if (c >= '0' && c <= '9') {
      number = number * 10 + static_cast<std::uint32_t>(c - '0');
      if (number > kPortMax) return false;
    } else if (number == 0 || (c == '-' && which == 1)) {
      return false;
    } else if (c == '-') {
      which = 1;
    } else if (c != ',' || (which == 1 && numbers[1] < numbers[0])) {
      return false;
    } else {
      numbers[0] = numbers[1] = 0;
      which = 0;
    }
  }
  return true;
}

/// Whether `value` is addresses and prefixes of them with commas between: IPv4 in full; of IPv6 the
/// characters and the length of the prefix, the rest is for who reads it. Pure.
constexpr bool is_addresses(std::string_view value) {
  while (true) {
    const std::string_view item = value.substr(0, value.find(','));
    const auto slash = item.find('/');
    const std::string_view address = item.substr(0, slash);
    const bool six = address.find(':') != std::string_view::npos;
    std::uint32_t numbers = 0, number = 0, digits = 0;
    for (std::size_t i = 0; i <= address.size(); ++i) {
      const char c = i < address.size() ? address[i] : '.';
      const bool decimal = c >= '0' && c <= '9';
      if (six && !decimal && !(c >= 'a' && c <= 'f') && !(c >= 'A' && c <= 'F') && c != ':' &&
          c != '.') {
        return false;
      }
      if (six) continue;
      if (decimal && digits < 3) {
        number = number * 10 + static_cast<std::uint32_t>(c - '0');
        ++digits;
      } else if (c != '.' || digits == 0 || number > 255) {
        return false;
      } else {
        ++numbers;
        number = digits = 0;
      }
    }
    if (!six && numbers != 4) return false;
    if (slash != std::string_view::npos) {
      std::uint32_t bits = 0;
      const std::string_view length = item.substr(slash + 1);
      if (length.empty() || length.size() > 3) return false;
      for (char c : length) {
        if (c < '0' || c > '9') return false;
        bits = bits * 10 + static_cast<std::uint32_t>(c - '0');
      }
      if (bits > (six ? 128u : 32u)) return false;
    }
    if (item.size() == value.size()) return true;
    value.remove_prefix(item.size() + 1);
  }
}

/// Whether `value` is names with commas between, none of them empty or a path. Pure.
constexpr bool is_names(std::string_view value) {
  bool empty = true;
  for (char c : value) {
    if (c == '/' || (c == ',' && empty)) return false;
    empty = c == ',';
  }
  return !empty;
}

/// Whether `value` is one that the setting takes. No spaces, signs or leading zeros. Pure.
constexpr bool accepts(const Setting& setting, std::string_view value) {
  const auto number = [](std::string_view digits) -> std::int64_t {
    constexpr std::size_t kDigitsMax = 9;
    if (digits.empty() || digits.size() > kDigitsMax || digits[0] == '0') return -1;
    std::int64_t sum = 0;
    for (char c : digits) {
      if (c < '0' || c > '9') return -1;
      sum = sum * 10 + (c - '0');
    }
    return sum;
  };
  std::string_view rest = setting.values;
  if (const auto dots = rest.find(".."); dots != std::string_view::npos) {
    const std::int64_t n = number(value);
    return n >= number(rest.substr(0, dots)) && n <= number(rest.substr(dots + 2));
  }
  while (true) {
    const auto bar = rest.find('|');
    const std::string_view choice = rest.substr(0, bar);
    if (choice == "/PATH"       ? value.substr(0, 1) == "/"
        : choice == "PORTS"     ? is_ports(value)
        : choice == "ADDRESSES" ? is_addresses(value)
        : choice == "NAMES"     ? is_names(value)
                                : choice == value) {
      return true;
    }
    if (bar == std::string_view::npos) return false;
    rest.remove_prefix(bar + 1);
  }
}

/// Edits (insert, remove, replace, swap neighbours) between two words of at most 64 characters;
/// longer ones count as unlike. Pure; for naming the word somebody may have meant.
constexpr std::size_t edit_distance(std::string_view a, std::string_view b) {
  constexpr std::size_t kWordMax = 64;
  if (a.size() > kWordMax || b.size() > kWordMax) return kWordMax;
  std::array<std::array<std::uint8_t, kWordMax + 1>, 3> rows{};
  for (std::size_t j = 0; j <= b.size(); ++j) rows[0][j] = static_cast<std::uint8_t>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& above = rows[(i - 1) % 3];
    const auto& above2 = rows[(i + 1) % 3];
    row[0] = static_cast<std::uint8_t>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t best = above[j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u);
      if (above[j] + 1u < best) best = above[j] + 1u;
      if (row[j - 1] + 1u < best) best = row[j - 1] + 1u;
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped && above2[j - 2] + 1u < best) best = above2[j - 2] + 1u;
      row[j] = static_cast<std::uint8_t>(best);
    }
  }
  return rows[a.size() % 3][b.size()];
}

/// The known setting nearest to a misspelt name. Never null. Pure.
constexpr const Setting* nearest_setting(std::string_view name) {
  const Setting* nearest = &kSettings[0];
  for (const Setting& setting : kSettings) {
    if (edit_distance(name, setting.name) < edit_distance(name, nearest->name)) nearest = &setting;
  }
  return nearest;
}

}  // namespace weft

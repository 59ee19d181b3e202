// The rules, read once from the environment.
#include "front/sockets/preload/rules.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "front/sockets/addresses.h"

namespace weft::sockets {
namespace {

constexpr unsigned kPorts = 65536;

/// Addresses that begin alike. Those of IPv4 are here the mapped ones of IPv6.
struct Prefix {
  std::array<std::uint8_t, 16> octets{};
  unsigned bits = 0;

  /// `::/0` is all of IPv6, and nothing of IPv4.
  bool holds(const in6_addr& address) const {
    constexpr unsigned kMappedBits = 96;
    if (bits < kMappedBits && IN6_IS_ADDR_V4MAPPED(&address)) return false;
    for (unsigned at = 0; at < bits; ++at) {
      const unsigned mask = 0x80u >> at % 8;
      if (((octets[at / 8] ^ address.s6_addr[at / 8]) & mask) != 0) return false;
    }
    return true;
  }
};

struct Rules {
  std::bitset<kPorts> ports;
  std::vector<Prefix> addresses;
  bool by_port = false, by_address = false, by_program = false;
  bool is_program = true;  ///< of those named, if there are any
  bool fall_back = true;
};

/// Calls visit(item) for each of "a,b,c".
template <typename Visit>
void each_item(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    visit(item);
  }
}

/// "6379" or "7000-7010"; what is wrong with it, `weft run` has said.
void read_ports(std::string_view item, std::bitset<kPorts>& ports) {
  unsigned first = 0, last = 0;
  const auto end = item.data() + item.size();
  const auto parsed = std::from_chars(item.data(), end, first);
  last = first;
  if (parsed.ec != std::errc() || first == 0 || first >= kPorts) return;
  if (parsed.ptr != end && *parsed.ptr == '-') std::from_chars(parsed.ptr + 1, end, last);
  for (unsigned port = first; port <= last && port < kPorts; ++port) ports.set(port);
}

/// "10.0.0.0/8", "fd00::1"
std::optional<Prefix> read_prefix(std::string_view item) {
  constexpr unsigned kAll = 128, kMapped = 96;
  const std::string address(item.substr(0, item.find('/')));
  Prefix prefix;
  unsigned before = 0;
  if (in_addr four; ::inet_pton(AF_INET, address.c_str(), &four) == 1) {
    before = kMapped;
    prefix.octets[10] = prefix.octets[11] = 0xff;
    std::memcpy(&prefix.octets[12], &four, sizeof four);
  } else if (::inet_pton(AF_INET6, address.c_str(), prefix.octets.data()) != 1) {
    return {};
  }
  prefix.bits = kAll;
  if (address.size() < item.size()) {
    unsigned bits = 0;
    std::from_chars(item.data() + address.size() + 1, item.data() + item.size(), bits);
    prefix.bits = std::min(before + bits, kAll);
  }
  return prefix;
}

/// The value of a setting that names something; nothing: it is not set, or says that all is meant.
std::optional<std::string_view> setting(const char* name, std::string_view all) {
  const char* value = std::getenv(name);
  if (value == nullptr || value == all) return {};
  return value;
}

const Rules& rules() {
  static const Rules* const read = [] {
    auto* made = new Rules;
    const char* ports = std::getenv("WEFT_IWARP_PORT");
    if (ports != nullptr) {
      made->by_port = true;
      each_item(ports, [&](std::string_view item) { read_ports(item, made->ports); });
    }
    if (const auto addresses = setting("WEFT_IWARP_ADDRESS", "any"); addresses) {
      made->by_address = true;
      each_item(*addresses, [&](std::string_view item) {
        if (const auto prefix = read_prefix(item); prefix) made->addresses.push_back(*prefix);
      });
    }
    if (const auto names = setting("WEFT_IWARP_PROGRAM", "any"); names) {
      made->by_program = true;
      made->is_program = false;
      each_item(*names, [&](std::string_view item) {
        made->is_program = made->is_program || item == program_invocation_short_name;
      });
    }
    const char* fall_back = std::getenv("WEFT_TCP_FALLBACK");
    made->fall_back = fall_back == nullptr || std::strcmp(fall_back, "off") != 0;
    return made;
  }();
  return *read;
}

}  // namespace

bool rule_holds(const sockaddr& address) {
  if (!has_rules() || octets_of(address.sa_family) == 0) return false;
  const sockaddr_storage shown = shown_as(AF_INET6, address);
  const auto& six = reinterpret_cast<const sockaddr_in6&>(shown);
  if (rules().by_port && !rules().ports[ntohs(six.sin6_port)]) return false;
  return !rules().by_address ||
         std::any_of(rules().addresses.begin(), rules().addresses.end(),
                     [&](const Prefix& prefix) { return prefix.holds(six.sin6_addr); });
}

bool has_rules() {
  const Rules& all = rules();
  return all.is_program && (all.by_port || all.by_address || all.by_program);
}

bool may_fall_back() {
  return rules().fall_back;
}

}  // namespace weft::sockets

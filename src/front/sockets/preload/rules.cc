// The rules, read once from the environment.
#include "front/sockets/preload/rules.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <bitset>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

namespace weft::sockets {
namespace {

constexpr unsigned kPorts = 65536;

struct Rules {
  std::bitset<kPorts> ports;
  bool fall_back = true;
};

/// "6379,7000-7010"; what is wrong with it, `weft run` has said.
void read_ports(std::string_view text, std::bitset<kPorts>& ports) {
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    unsigned first = 0, last = 0;
    const auto end = item.data() + item.size();
    const auto parsed = std::from_chars(item.data(), end, first);
    last = first;
    if (parsed.ec != std::errc() || first == 0 || first >= kPorts) continue;
    if (parsed.ptr != end && *parsed.ptr == '-') std::from_chars(parsed.ptr + 1, end, last);
    for (unsigned port = first; port <= last && port < kPorts; ++port) ports.set(port);
  }
}

const Rules& rules() {
  static const Rules* const read = [] {
    auto* made = new Rules;
    if (const char* ports = std::getenv("WEFT_IWARP_PORT"); ports != nullptr) {
      read_ports(ports, made->ports);
    }
    const char* fall_back = std::getenv("WEFT_TCP_FALLBACK");
    made->fall_back = fall_back == nullptr || std::strcmp(fall_back, "off") != 0;
    return made;
  }();
  return *read;
}

}  // namespace

bool rule_holds(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return rules().ports[ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port)];
  }
  if (address.sa_family == AF_INET6) {
    return rules().ports[ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port)];
  }
  return false;
}

bool has_rules() {
  return rules().ports.any();
}

bool may_fall_back() {
  return rules().fall_back;
}

}  // namespace weft::sockets

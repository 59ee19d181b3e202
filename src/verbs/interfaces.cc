// Asks the kernel for interfaces, addresses and routes.
#include "verbs/interfaces.h"

#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/number_gate.h"

namespace weft::verbs {
namespace {

/// A socket for questions to the kernel, made and closed with the NumberGate passed. By system
/// call: a preloaded sockets library must neither see it nor come back to us because of it.
class QuestionSocket {
 public:
  explicit QuestionSocket(int family)
      : fd_(static_cast<int>(syscall(SYS_socket, family, SOCK_DGRAM | SOCK_CLOEXEC, 0))) {}
  QuestionSocket(const QuestionSocket&) = delete;
  QuestionSocket& operator=(const QuestionSocket&) = delete;
  ~QuestionSocket() {
    if (fd_ >= 0) syscall(SYS_close, fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

ifreq request_for(const char* netdev) {
  ifreq request{};
  std::snprintf(request.ifr_name, sizeof request.ifr_name, "%s", netdev);
  return request;
}

unsigned mtu_of(const QuestionSocket& socket, const char* netdev) {
  ifreq request = request_for(netdev);
  constexpr unsigned kEthernetMtu = 1500;
  if (ioctl(socket.fd(), SIOCGIFMTU, &request) != 0 || request.ifr_mtu <= 0) return kEthernetMtu;
  return static_cast<unsigned>(request.ifr_mtu);
}

std::uint32_t speed_of(const QuestionSocket& socket, const char* netdev) {
  ethtool_cmd command{};
  command.cmd = ETHTOOL_GSET;
  ifreq request = request_for(netdev);
  request.ifr_data = reinterpret_cast<char*>(&command);
  if (ioctl(socket.fd(), SIOCETHTOOL, &request) != 0) return 0;
  const std::uint32_t mbps = ethtool_cmd_speed(&command);
  return mbps == static_cast<std::uint32_t>(SPEED_UNKNOWN) ? 0 : mbps;
}

/// EUI-64 of the MAC, with the interface's index mixed into its filler: interfaces on top of one
/// another share a MAC. An interface without a MAC gets a locally administered one.
std::uint64_t guid_of(const Interface& interface) {
  const std::uint8_t* mac = interface.mac;
  const std::uint64_t filler = 0xfffe ^ (interface.index & 0xffff);
  return std::uint64_t{static_cast<std::uint8_t>(mac[0] ^ 0x02)} << 56 |
         std::uint64_t{mac[1]} << 48 | std::uint64_t{mac[2]} << 40 | filler << 24 |
         std::uint64_t{mac[3]} << 16 | std::uint64_t{mac[4]} << 8 | mac[5];
}

Interface interface_from(const ifaddrs& entry, const QuestionSocket& socket) {
  const auto& link = *reinterpret_cast<const sockaddr_ll*>(entry.ifa_addr);
  Interface interface{};
  std::snprintf(interface.name, sizeof interface.name, "weft_%s", entry.ifa_name);
  std::snprintf(interface.netdev, sizeof interface.netdev, "%s", entry.ifa_name);
  interface.index = static_cast<unsigned>(link.sll_ifindex);
  interface.up = (entry.ifa_flags & IFF_UP) != 0 && (entry.ifa_flags & IFF_RUNNING) != 0;
  if (link.sll_halen == sizeof interface.mac) {
    std::memcpy(interface.mac, link.sll_addr, sizeof interface.mac);
  }
  interface.mtu = mtu_of(socket, entry.ifa_name);
  interface.speed_mbps = speed_of(socket, entry.ifa_name);
  interface.guid = guid_of(interface);
  return interface;
}

/// The ifindex behind a name, from the list's own link entries; 0 when there is none. An alias
/// ("eth0:1") is an address of the interface before the colon.
unsigned index_of(const ifaddrs* list, std::string_view name) {
  name = name.substr(0, name.find(':'));
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_PACKET) continue;
    if (name != entry->ifa_name) continue;
    const int index = reinterpret_cast<const sockaddr_ll*>(entry->ifa_addr)->sll_ifindex;
    return static_cast<unsigned>(index);
  }
  return 0;
}

void add_addresses(const ifaddrs* list, int family, std::vector<InterfaceAddress>* addresses) {
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
    const unsigned index = index_of(list, entry->ifa_name);
    if (index == 0) continue;
    InterfaceAddress found{index, {}};
    std::memcpy(&found.address, entry->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    addresses->push_back(found);
  }
}

bool same_address(const sockaddr* a, const sockaddr* b) {
  if (a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  }
  const auto* a6 = reinterpret_cast<const sockaddr_in6*>(a);
  const auto* b6 = reinterpret_cast<const sockaddr_in6*>(b);
  if (std::memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof a6->sin6_addr) != 0) return false;
  return a6->sin6_scope_id == 0 || b6->sin6_scope_id == 0 ||
         a6->sin6_scope_id == b6->sin6_scope_id;
}

}  // namespace

InterfaceScan scan_interfaces() {
  InterfaceScan scan;
  const NumberGate gate;  // this and what getifaddrs does open descriptors for a moment
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return scan;
  std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  add_addresses(list, AF_INET, &scan.addresses);
  add_addresses(list, AF_INET6, &scan.addresses);

  const QuestionSocket socket(AF_INET);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_PACKET) continue;
    const auto& link = *reinterpret_cast<const sockaddr_ll*>(entry->ifa_addr);
    const bool usual = link.sll_hatype == ARPHRD_ETHER || link.sll_hatype == ARPHRD_LOOPBACK;
    const bool addressed = std::any_of(
        scan.addresses.begin(), scan.addresses.end(),
        [&](const auto& a) { return a.index == static_cast<unsigned>(link.sll_ifindex); });
    if (usual || addressed) scan.interfaces.push_back(interface_from(*entry, socket));
  }
  std::sort(scan.interfaces.begin(), scan.interfaces.end(),
            [](const Interface& a, const Interface& b) { return a.index < b.index; });
  return scan;
}

unsigned index_with_address(std::span<const InterfaceAddress> addresses, const sockaddr* wanted) {
  if (wanted->sa_family != AF_INET && wanted->sa_family != AF_INET6) return 0;
  for (const InterfaceAddress& candidate : addresses) {
    if (same_address(reinterpret_cast<const sockaddr*>(&candidate.address), wanted)) {
      return candidate.index;
    }
  }
  return 0;
}

bool source_address_for(const sockaddr* remote, sockaddr_storage* source) {
  sockaddr_storage target{};
  socklen_t octets;
  if (remote->sa_family == AF_INET) {
    octets = sizeof(sockaddr_in);
    std::memcpy(&target, remote, octets);
    // Connecting a datagram socket sends nothing, but a port is demanded.
    reinterpret_cast<sockaddr_in*>(&target)->sin_port = htons(9);
  } else if (remote->sa_family == AF_INET6) {
    octets = sizeof(sockaddr_in6);
    std::memcpy(&target, remote, octets);
    reinterpret_cast<sockaddr_in6*>(&target)->sin6_port = htons(9);
  } else {
    return false;
  }
  const NumberGate gate;
  const QuestionSocket socket(remote->sa_family);
  if (socket.fd() < 0) return false;
  if (syscall(SYS_connect, socket.fd(), &target, octets) != 0) return false;
  socklen_t source_octets = sizeof *source;
  *source = {};
  return syscall(SYS_getsockname, socket.fd(), source, &source_octets) == 0;
}

}  // namespace weft::verbs

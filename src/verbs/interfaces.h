// The network interfaces of this machine, as the devices that weft makes of them.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <span>
#include <string_view>
#include <vector>

#include "verbs/runtime.h"

namespace weft::verbs {

/// An IPv4 or IPv6 address of an interface.
struct InterfaceAddress {
  unsigned index;            ///< ifindex
  sockaddr_storage address;  ///< port 0
};

/// What is there now.
struct InterfaceScan {
  std::vector<Interface> interfaces;        ///< in ifindex order
  std::vector<InterfaceAddress> addresses;  ///< IPv4 first, then IPv6, each in the kernel's order
};

/// Asks the kernel. Left out are interfaces that are neither loopback nor Ethernet-like and have no
/// address: idle tunnels, which every network namespace has. Never fails: nothing found is empty.
/// Threads: any.
InterfaceScan scan_interfaces();

/// The ifindex of the interface that has the address, or 0. The scope id decides between link-local
/// ones. Pure.
unsigned index_with_address(std::span<const InterfaceAddress> addresses, const sockaddr* wanted);

/// The local address that packets to `remote` would have as their source, by asking the routing
/// table. False: there is no route.
bool source_address_for(const sockaddr* remote, sockaddr_storage* source);

}  // namespace weft::verbs

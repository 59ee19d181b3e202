// Socket addresses and the few sockets the connection manager itself needs.
//
// The sockets are made by direct system calls: a sockets preload replaces socket(), bind() and
// connect() with functions that may call this library.
#pragma once

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "base/result.h"

namespace weft::front::cm {

/// Octets of an AF_INET or AF_INET6 address; 0 for any other family.
socklen_t address_octets(const sockaddr& address);

/// Ports in host order.
std::uint16_t port_of(const sockaddr& address);
void set_port(sockaddr& address, std::uint16_t port);

/// 0.0.0.0 or [::].
bool is_any(const sockaddr& address);
/// 127.0.0.0/8 or [::1].
bool is_loopback(const sockaddr& address);
bool is_multicast(const sockaddr& address);

/// Turns the wildcard into the loopback address of its family; the port stays.
void set_loopback(sockaddr& address);

/// Copies an address of a family we know; the rest of `to` is zero.
void copy_address(sockaddr_storage& to, const sockaddr& from);
/// Likewise, and an IPv4 address mapped into IPv6 becomes plain IPv4: so the RDMA CM shows it, also
/// on a listener for both families.
void copy_unmapped(sockaddr_storage& to, const sockaddr& from);

/// The address as a GID: IPv6 as it is, IPv4 mapped into IPv6.
ibv_gid gid_of(const sockaddr& address);

/// Reserves a TCP port: binds a socket that does not listen, and writes the port picked for port 0
/// into `address`. Errors: EADDRINUSE (a plain TCP or a weft listener has it), EADDRNOTAVAIL (not
/// an address of this host), EACCES. Gives a descriptor for close_socket.
///
/// SO_REUSEADDR is set, as the device sets it on its listeners: connections in TIME_WAIT do not
/// count, and the device can listen while the port is still held here.
Result<int> hold_port(sockaddr_storage& address, bool v6_only);

/// Finds the address from which packets to `target` leave, by connecting a UDP socket; nothing is
/// sent. A non-wildcard `source` is kept and checked. The port of `source` stays. Errors: the
/// errno of bind or connect (EADDRNOTAVAIL, ENETUNREACH, EHOSTUNREACH, EINVAL ...).
Result<void> choose_source(const sockaddr& target, sockaddr_storage& source);

void close_socket(int fd);

}  // namespace weft::front::cm

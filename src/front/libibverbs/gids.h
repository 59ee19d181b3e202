// The GIDs of a port.
#pragma once

#include <infiniband/verbs.h>
#include <sys/socket.h>

#include <cstddef>
#include <vector>

namespace weft::front {

/// GID 0 is the interface's MAC followed by zeros, as kernel iWARP devices have it, but not in
/// persona ib; then its IPv4 addresses, mapped (RFC 4291 §2.5.5.2), and its IPv6 addresses. Empty
/// when the interface is gone.
std::vector<ibv_gid> gid_table(ibv_context* context);
/// How many indexes there are for so many GIDs: as on other devices more than are in use, so that
/// an address that comes later has its place in what a program knows of the port.
int gid_table_length(std::size_t count);

/// The address that a GID of the second or third kind stands for, port 0. A link-local one is on
/// the link of `context`. False: it is no address.
bool address_of_gid(ibv_context* context, const ibv_gid& gid, sockaddr_storage* address);

}  // namespace weft::front

// The GIDs of a port.
#pragma once

#include <infiniband/verbs.h>

#include <vector>

namespace weft::front {

/// GID 0 is the interface's MAC followed by zeros, as kernel iWARP devices have it; then its IPv4
/// addresses, mapped (RFC 4291 §2.5.5.2), and its IPv6 addresses. Empty when the interface is gone.
std::vector<ibv_gid> gid_table(ibv_context* context);

}  // namespace weft::front

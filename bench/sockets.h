// The one TCP connection between the two ends of a bench.
#pragma once

#include <string>

#include "bench/control.h"
#include "bench/medium.h"
#include "measure/sockets.h"

namespace weft::bench {

/// One connection between the two ends: the follower listens and tells the port by control.
int open_connection(Medium::Role role, const std::string& address, Control& control,
                    std::uint32_t buffer_octets, const std::string& congestion);

}  // namespace weft::bench

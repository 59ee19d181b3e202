// The same measurements over a plain socket: the baseline of every figure.
#pragma once

#include <memory>
#include <string>

#include "measure/runner.h"

namespace weft::measure {

/// fd: a connected socket; owned. Messages are octets of a stream, so what counts as one is known
/// from the plan alone.
std::unique_ptr<Runner> make_tcp_runner(const Plan& plan, Side side, int fd);

/// Throws Failure if nobody comes for long, or the peer on `line` leaves.
int accept_tcp(int listener, Line& line);

}  // namespace weft::measure

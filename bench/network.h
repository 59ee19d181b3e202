// A network of the bench's own, when the machine's congestion control is not the one to measure.
#pragma once

#include <string>

namespace weft::bench {

/// Moves this process, and the ends it will fork, into a new network namespace that has a loopback
/// interface alone, with `congestion` as its congestion control. Needs no root where users may make
/// namespaces. Before any thread or socket exists. Throws Failure.
void enter_own_network(const std::string& congestion);

/// Moves this thread into the network namespace that `file` stands for. Throws Failure.
void enter_network(const std::string& file);

}  // namespace weft::bench

// Which sockets of a program that does not ask for itself are switched to IWARP_MODE.
#pragma once

#include <sys/socket.h>

namespace weft::sockets {

/// By the port that a socket listens on or connects to (WEFT_IWARP_PORT). Pure after the first
/// call, which reads the environment.
bool rule_holds(const sockaddr& address);
/// There is any rule: sockets are worth watching.
bool has_rules();
/// WEFT_TCP_FALLBACK: a peer that does not speak iWARP is spoken to by TCP.
bool may_fall_back();

}  // namespace weft::sockets

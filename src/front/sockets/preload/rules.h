// Which sockets of a program that does not ask for itself are switched to IWARP_MODE.
#pragma once

#include <sys/socket.h>

namespace weft::sockets {

/// By the address and port that a socket listens on or connects to, and by the program's name
/// (WEFT_IWARP_PORT, WEFT_IWARP_ADDRESS, WEFT_IWARP_PROGRAM): all that are set have to hold. A
/// socket that listens at all addresses is none of a part of them. Pure after the first call, which
/// reads the environment.
bool rule_holds(const sockaddr& address);
/// There is any rule, and this program is of it: sockets are worth watching.
bool has_rules();
/// WEFT_TCP_FALLBACK: a peer that does not speak iWARP is spoken to by TCP.
bool may_fall_back();

}  // namespace weft::sockets

// Which epoll sets may hold sockets of ours, and what the program does not know.
#pragma once

#include "front/sockets/number_set.h"

namespace weft::sockets {

/// No more than a hint: a set that is not here is waited for in the kernel as ever, and one that
/// outlived its set costs a little.
inline constinit NumberSet epoll_sets;

/// What our libraries have for themselves, above the program's (base/number_gate.h). Programs that
/// close all there is mean what they know.
inline constinit NumberSet hidden_numbers;

}  // namespace weft::sockets

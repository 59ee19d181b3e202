// Descriptors of ours among the program's.
#pragma once

namespace weft::sockets {

void beside_dup3(void (*act)(void* cookie), void* cookie);

/// Calls act(), which makes descriptors and closes them, or moves them (out_of_the_way).
/// Whoever puts something under a number of its choice (dup2) waits meanwhile: else that would be
/// closed, or be taken for ours. Any thread.
template <typename Act>
void beside_dup3(Act act) {
  beside_dup3([](void* cookie) { (*static_cast<Act*>(cookie))(); }, &act);
}

/// What the verbs and connection manager libraries make from now on leaves the program's numbers
/// alone, where they can do that.
void leave_numbers();

}  // namespace weft::sockets

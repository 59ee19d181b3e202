// Numbers of descriptors, where threads of ours and the program both use them. In libibverbs.so.1
// at the version WEFT_PRIVATE_1, for the sockets code, which does without on other verbs libraries.
#pragma once

/// As dup3(2). The number may be one that a thread of ours gets from the kernel at this moment and
/// is about to close again: not before it has.
extern "C" int weft_dup3(int fd, int to, int flags);

/// Calls act(cookie), which makes descriptors and closes them, or gives them other numbers
/// (out_of_the_way), before it returns: no weft_dup3 meanwhile. It calls nothing of this library.
extern "C" void weft_beside_dup3(void (*act)(void* cookie), void* cookie);

/// The descriptors of devices and channels that are made from now on have numbers above those of
/// the program: it does not know that they are made, and counts on the lowest number being free.
extern "C" void weft_leave_numbers();

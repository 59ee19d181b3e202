// dup3 beside threads that open descriptors.
#pragma once

/// As dup3(2). The number may be one that the device's threads get from the kernel at this moment
/// and are about to close again: not before they have. In libibverbs.so.1 as
/// weft_dup3@WEFT_PRIVATE_1, for the sockets code, which does without it on other verbs libraries.
extern "C" int weft_dup3(int fd, int to, int flags);

// A wait in which a program's thread works for the device.
#pragma once

#include <poll.h>

#include <csignal>
#include <ctime>

/// As ppoll(2), but the calling thread does the work of the device's thread meanwhile, which saves
/// it the switch from there (docs/adr/0017). May return 0 before its time: something happened, look
/// at your queues. No cancellation point. A thread that leaves it by a jump out of a signal handler
/// calls it again, with nothing to wait for, before anything else. In libibverbs.so.1 as
/// weft_ppoll@WEFT_PRIVATE_1, for the sockets code, which does without it on other verbs libraries.
extern "C" int weft_ppoll(pollfd* fds, nfds_t count, const timespec* wait, const sigset_t* mask);

/// The calling thread is the device for a moment, as one that polls an empty CQ. Never waits. As
/// weft_look@WEFT_PRIVATE_1.
extern "C" void weft_look();

/// The process is about to end, and the lock of malloc may be held for ever: no thread is told of
/// the end of a connection any more, completions alone tell. As weft_exits@WEFT_PRIVATE_1.
extern "C" void weft_exits();

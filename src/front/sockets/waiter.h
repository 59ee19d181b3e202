// How a thread waits: in the kernel's poll, on a descriptor of its own that others can write to.
#pragma once

#include <poll.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <optional>

#include "base/result.h"

namespace weft::sockets {

using Clock = std::chrono::steady_clock;
/// Empty: for ever.
using Deadline = std::optional<Clock::time_point>;

/// The calling thread's descriptor that wakes it, made when first asked for; in a forked child, a
/// new one. Errors: EMFILE, ENFILE.
Result<int> own_wake_fd();
void wake(int wake_fd);
/// Takes back what woke this thread.
void settle(int wake_fd);

/// As ppoll(2), which it may end before, with 0: look at your sockets. Over weft's own verbs library
/// the calling thread works for the device while it sleeps, and is not woken by another one.
int sleep(pollfd* fds, nfds_t count, const timespec* wait, const sigset_t* mask = nullptr);

/// What poll's EINTR should become. A socket call is restarted after a handler that was installed
/// with SA_RESTART, poll never is; nobody says which signal it was, so a call goes on if every
/// handler of this process restarts.
bool handlers_restart();

/// Counts the forks that led to this process: what was made in an earlier one is not ours.
unsigned fork_generation();

}  // namespace weft::sockets

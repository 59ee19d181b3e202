// Stretches of code in which the calling thread takes no SIGPIPE.
#pragma once

#include <pthread.h>

#include <csignal>
#include <ctime>

namespace weft::sockets {

/// A stretch of code that may raise SIGPIPE in the calling thread, of which the program is not to
/// hear. Costs system calls; with `on` false nothing.
class NoSigpipe {
 public:
  explicit NoSigpipe(bool on) : on_(on) {
    if (!on_) return;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    was_pending_ = is_pending();
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    if (!on_) return;
    const timespec at_once{};
    // One that waited before is the program's own.
    if (!was_pending_ && is_pending()) sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  static bool is_pending() {
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGPIPE) == 1;
  }

  const bool on_;
  bool was_pending_ = false;
  sigset_t pipe_, before_;
};

}  // namespace weft::sockets

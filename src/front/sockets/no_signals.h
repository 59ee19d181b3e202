// Stretches of code in which the calling thread takes no signals of the program, or not one.
#pragma once

#include <pthread.h>

#include <csignal>
#include <ctime>
#include <initializer_list>

namespace weft::sockets {

/// What the thread itself raises is left as it is, as in engine/thread/no_signals.h, which a
/// library that runs above any verbs cannot include.
class NoSignals {
 public:
  NoSignals() {
    sigset_t others;
    sigfillset(&others);
    for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
      sigdelset(&others, own);
    }
    pthread_sigmask(SIG_BLOCK, &others, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

  /// The thread's mask outside of it.
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
};

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

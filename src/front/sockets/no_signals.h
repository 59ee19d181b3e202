// A stretch of code in which the calling thread takes no signals of the program.
#pragma once

#include <pthread.h>

#include <csignal>
#include <initializer_list>

namespace weft::sockets {

/// Faults are taken: they are nobody else's.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    for (int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

  /// The thread's mask outside of it.
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
};

}  // namespace weft::sockets

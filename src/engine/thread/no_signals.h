// A stretch of code in which the calling thread takes no signals of the program.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <initializer_list>

namespace weft::engine {

/// Faults are taken: they belong to the guard. What comes meanwhile is pending at its end.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
      sigdelset(&all, fault);
    }
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

}  // namespace weft::engine

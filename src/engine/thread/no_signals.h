// A stretch of code in which the calling thread takes no signals of the program.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <initializer_list>

namespace weft::engine {

/// What an instruction or a call of the thread itself raises: nobody else's.
inline sigset_t own_faults() {
  sigset_t faults;
  sigemptyset(&faults);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
    sigaddset(&faults, fault);
  }
  return faults;
}

/// Faults are left as they are. What comes meanwhile is pending at its end.
class NoSignals {
 public:
  NoSignals() {
    const sigset_t faults = own_faults();
    sigset_t others;
    sigemptyset(&others);
    for (int number = 1; number < NSIG; ++number) {
      if (sigismember(&faults, number) == 0) sigaddset(&others, number);
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

}  // namespace weft::engine

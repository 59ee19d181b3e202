// The signals of the program, which a thread takes between calls of ours and not within.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <initializer_list>

namespace weft {

/// What an instruction or a call of the thread itself raises: nobody else's.
inline constexpr auto kOwnFaults = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};

/// Those of the calling thread, which may have been blocked, are taken again.
inline void take_faults() {
  sigset_t faults;
  sigemptyset(&faults);
  for (const int fault : kOwnFaults) sigaddset(&faults, fault);
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
}

/// A stretch of code in which the calling thread takes no signals of the program. Faults are left
/// as they are. What comes meanwhile is pending at its end.
class NoSignals {
 public:
  NoSignals() {
    sigset_t others;
    sigfillset(&others);
    for (const int fault : kOwnFaults) sigdelset(&others, fault);
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

/// Does a signal wait that is not blocked by `mask`, and has a handler? It runs.
bool takes_signal(const sigset_t& mask);

/// The program has a handler for this signal.
bool is_handled(int signal);

/// What the EINTR of a wait of ours should become. The kernel restarts a call after a handler that
/// was installed with SA_RESTART, but no wait for descriptors. Nobody says which signal it was, so
/// a call goes on if every handler of this process restarts.
bool handlers_restart();

}  // namespace weft

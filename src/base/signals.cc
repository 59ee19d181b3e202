// What handlers a program has, and whether one is due.
//
// System calls by number: a preload library of the same process may stand in front of libc's
// functions, and takes_signal is no cancellation point.
#include "base/signals.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <optional>

namespace weft {
namespace {

/// The kernel's own struct.
struct KernelAction {
  void* handler;
  unsigned long flags;
  void* restorer;
  std::uint64_t mask;
};

/// Of a signal that has a handler.
std::optional<KernelAction> handler_of(int signal) {
  KernelAction action{};
  if (::syscall(SYS_rt_sigaction, signal, nullptr, &action, sizeof action.mask) != 0) return {};
  const auto handler = reinterpret_cast<std::uintptr_t>(action.handler);
  const bool handled = handler != reinterpret_cast<std::uintptr_t>(SIG_DFL) &&
                       handler != reinterpret_cast<std::uintptr_t>(SIG_IGN);
  return handled ? std::optional(action) : std::nullopt;
}

}  // namespace

bool takes_signal(const sigset_t& mask) {
  timespec at_once{};
  return ::syscall(SYS_ppoll, nullptr, 0, &at_once, &mask, sizeof(KernelAction::mask)) < 0;
}

bool is_handled(int signal) {
  return handler_of(signal).has_value();
}

bool handlers_restart() {
  for (int number = 1; number < _NSIG; ++number) {
    // Faults are not what interrupts a wait, and two are the C library's own.
    const bool is_fault = number == SIGSEGV || number == SIGBUS || number == SIGILL ||
                          number == SIGFPE || number == SIGTRAP;
    if (is_fault || (number >= __SIGRTMIN && number < SIGRTMIN)) continue;
    const auto action = handler_of(number);
    if (action && (action->flags & SA_RESTART) == 0) return false;
  }
  return true;
}

}  // namespace weft

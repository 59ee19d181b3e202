// The fault guard and the four ways to touch registered memory.
#include "engine/guarded_mover.h"

#include <setjmp.h>
#include <signal.h>

#include <cstring>
#include <mutex>

#include "base/crc32c.h"

namespace weft::engine {
namespace {

/// The range this thread is about to touch. Written before and after the access by the same thread
/// that takes the signal, so only the compiler needs to be kept from reordering.
struct Guard {
  sigjmp_buf jump;
  std::uintptr_t low = 0;
  std::uintptr_t high = 0;  // 0: no guard
};

// initial-exec: a lazily allocated thread-local could call malloc, and the handler reads it.
[[gnu::tls_model("initial-exec")]] thread_local Guard t_guard;

struct sigaction g_previous_segv;
struct sigaction g_previous_bus;

void call_previous(int signal_number, siginfo_t* info, void* context) {
  const struct sigaction& previous = signal_number == SIGBUS ? g_previous_bus : g_previous_segv;
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    previous.sa_sigaction(signal_number, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal_number);
  } else {
    // Return to the faulting instruction with the default action: it faults again and ends the
    // process as if we were not here.
    struct sigaction fallback = {};
    fallback.sa_handler = SIG_DFL;
    sigaction(signal_number, &fallback, nullptr);
  }
}

void handle_fault(int signal_number, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  Guard& guard = t_guard;
  if (guard.high != 0 && address >= guard.low && address < guard.high) {
    guard.high = 0;
    siglongjmp(guard.jump, 1);
  }
  call_previous(signal_number, info, context);
}

void install_for(int signal_number, struct sigaction* previous) {
  struct sigaction current = {};
  sigaction(signal_number, nullptr, &current);
  if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == handle_fault) return;
  *previous = current;
  struct sigaction ours = {};
  ours.sa_sigaction = handle_fault;
  // NODEFER: after the jump the signal must not stay blocked. ONSTACK: a program that handles its
  // own stack overflows keeps working.
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  sigaction(signal_number, &ours, nullptr);
}

/// Runs `access`, which touches only [address, address + octets) of registered memory.
template <typename Access>
bool guarded(const void* address, std::size_t octets, Access access) {
  Guard& guard = t_guard;
  if (sigsetjmp(guard.jump, 0) != 0) return false;
  guard.low = reinterpret_cast<std::uintptr_t>(address);
  guard.high = guard.low + octets;
  __asm__ volatile("" ::: "memory");
  access();
  __asm__ volatile("" ::: "memory");
  guard.high = 0;
  return true;
}

}  // namespace

void GuardedMover::install_handler() {
  static std::mutex mutex;
  const std::scoped_lock hold(mutex);
  install_for(SIGSEGV, &g_previous_segv);
  install_for(SIGBUS, &g_previous_bus);
}

std::uint32_t GuardedMover::crc_extend(std::uint32_t state, Octets data) {
  return crc32c_extend(state, data);
}

bool GuardedMover::crc_registered(std::uint32_t* state, const std::uint8_t* source,
                                  std::size_t octets) {
  return guarded(source, octets, [&] { *state = crc32c_extend(*state, Octets(source, octets)); });
}

bool GuardedMover::fetch(std::uint8_t* target, const std::uint8_t* source, std::size_t octets,
                         std::uint32_t* state) {
  return guarded(source, octets, [&] {
    if (state != nullptr) {
      *state = crc32c_copy(*state, MutableOctets(target, octets), Octets(source, octets));
    } else {
      std::memcpy(target, source, octets);
    }
  });
}

bool GuardedMover::place(std::uint8_t* target, Octets source) {
  return guarded(target, source.size(), [&] { std::memcpy(target, source.data(), source.size()); });
}

}  // namespace weft::engine

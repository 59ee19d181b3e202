// The fault guard and the four ways to touch registered memory.
#include "engine/guarded_mover.h"

#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "base/crc32c.h"
#include "engine/copies.h"
#include "engine/ticks.h"

namespace weft::engine {
namespace {

#ifdef __SANITIZE_THREAD__
// ThreadSanitizer keeps a stack of its own, which only the library's functions take back.
using Jump = sigjmp_buf;
#define WEFT_MARK(jump) sigsetjmp(jump, 0)
#define WEFT_JUMP(jump) siglongjmp(jump, 1)
#else
// The compiler's own: three words, and no call for each access.
using Jump = void* [5];
#define WEFT_MARK(jump) __builtin_setjmp(jump)
#define WEFT_JUMP(jump) __builtin_longjmp(jump, 1)
#endif

/// The range this thread is about to touch. Written before and after the access by the same thread
/// that takes the signal, so only the compiler needs to be kept from reordering.
struct Guard {
  Jump jump = {};  // or the thread-local would be initialised at run time, by a call
  std::uintptr_t first = 0;
  std::size_t octets = 0;  // 0: no guard

  /// Is the fault in the range? Of an address that no page can have (on x86-64 one that is not
  /// canonical) the signal tells nothing; between the marks it can only be one of the range, which
  /// may be anywhere in a region of all memory.
  bool covers(const siginfo_t* info) const {
    if (octets != 0 && info->si_code == SI_KERNEL) return true;
    return reinterpret_cast<std::uintptr_t>(info->si_addr) - first < octets;
  }
};

// initial-exec: a lazily allocated thread-local could call malloc, and the handler reads it.
[[gnu::tls_model("initial-exec")]] constinit thread_local Guard t_guard;

/// The handlers that were in front when ours was put there, oldest first. Several, because a
/// program that installs its own between two of our installations may call ours from it: each time
/// a fault comes back to us, the next older one has its turn.
///
/// Threads: entries are written once and then counted; only install_handler() writes.
struct History {
  static constexpr std::uint32_t kCountMax = 8;
  struct sigaction handlers[kCountMax];
  std::atomic<std::uint32_t> count{0};
};
History g_segv;
History g_bus;

/// How many of our handler's calls to older handlers this thread is inside of.
[[gnu::tls_model("initial-exec")]] constinit thread_local std::uint32_t t_forwarded = 0;

bool has_function(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

/// Nobody handles it. A fault happens again at the return, and ends the process as if we were not
/// here; a signal that was sent has to be sent again.
void take_default(int signal_number, const siginfo_t* info) {
  struct sigaction fallback = {};
  fallback.sa_handler = SIG_DFL;
  sigaction(signal_number, &fallback, nullptr);
  if (info->si_code <= 0) raise(signal_number);
}

void call_previous(int signal_number, siginfo_t* info, void* context) {
  const History& history = signal_number == SIGBUS ? g_bus : g_segv;
  const std::uint32_t count = history.count.load(std::memory_order_acquire);
  if (t_forwarded >= count) return take_default(signal_number, info);
  const struct sigaction& previous = history.handlers[count - 1 - t_forwarded];
  if (!has_function(previous)) {
    const bool ignored = previous.sa_handler == SIG_IGN && info->si_code <= 0;
    return ignored ? void() : take_default(signal_number, info);
  }
  ++t_forwarded;
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal_number, info, context);
  } else {
    previous.sa_handler(signal_number);
  }
  --t_forwarded;
}

/// Back to what was blocked at the fault. Ours blocks nothing more, but a handler that called it
/// may: a second fault while its signal is blocked ends the process.
void unblock(const void* context) {
  if (context == nullptr) return;
  pthread_sigmask(SIG_SETMASK, &static_cast<const ucontext_t*>(context)->uc_sigmask, nullptr);
}

/// To the mark of this thread's guard.
[[noreturn, gnu::noipa, gnu::cold]] void jump_back() {
  WEFT_JUMP(t_guard.jump);
}

void handle_fault(int signal_number, siginfo_t* info, void* context) {
  Guard& guard = t_guard;
  const bool fault = info->si_code > 0;  // the kernel found it; else somebody sent a signal
  if (fault && guard.covers(info)) {
    guard.octets = 0;
    t_forwarded = 0;  // the jump leaves every handler behind
    unblock(context);
    jump_back();
  }
  call_previous(signal_number, info, context);
}

bool same_handler(const struct sigaction& a, const struct sigaction& b) {
  return (a.sa_flags & SA_SIGINFO) == (b.sa_flags & SA_SIGINFO) && a.sa_handler == b.sa_handler;
}

void remember(History& history, const struct sigaction& handler) {
  const std::uint32_t count = history.count.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (same_handler(history.handlers[i], handler)) return;
  }
  if (count == History::kCountMax) return;  // a program with so many keeps the first of them
  history.handlers[count] = handler;
  history.count.store(count + 1, std::memory_order_release);
}

void install_for(int signal_number, History& history) {
  struct sigaction current = {};
  sigaction(signal_number, nullptr, &current);
  if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == handle_fault) return;
  remember(history, current);
  struct sigaction ours = {};
  ours.sa_sigaction = handle_fault;
  // NODEFER: after the jump the signal must not stay blocked. ONSTACK: a program that handles its
  // own stack overflows keeps working.
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  sigaction(signal_number, &ours, nullptr);
}

/// What is shorter says too little of the cache, for what it costs to look at the clock.
constexpr std::size_t kTimedOctetsMin = 16 * 1024;
/// From the second-level cache a CRC runs at 20 to 40 octets per tick of an x86 processor's clock,
/// from memory at 5, and asked for ahead at 9. A processor whose CRC is slower than this anyway
/// loses nothing by asking ahead. Where ticks are longer, or there are none, all is warm.
constexpr std::uint64_t kWarmSumsPerTick = 12;

/// Runs `sum(ahead)`. How long it takes says whether its memory was in a cache, and so whether the
/// next is to ask for its own ahead.
template <typename Sum>
bool timed(std::atomic<bool>& cold, std::size_t octets, Sum sum) {
  const bool ahead = cold.load(std::memory_order_relaxed);
  if (octets < kTimedOctetsMin) return sum(ahead);
  const std::uint64_t began = ticks();
  const bool done = sum(ahead);
  const bool was_cold = (ticks() - began) * kWarmSumsPerTick > octets;
  if (was_cold != ahead) cold.store(was_cold, std::memory_order_relaxed);
  return done;
}

/// So much, placed where nothing was placed lately, is stored past the caches. Less is what
/// programs look at soon.
constexpr std::size_t kPlacedPastOctetsMin = RecentPlaces::kBlockOctets;

/// Less gains nothing by going past the caches. The short end of 64 KiB (core::QP) does.
constexpr std::size_t kFetchedPastOctetsMin = 8 * 1024;

/// Runs `access`, which touches only [address, address + octets) of registered memory.
template <typename Access>
bool guarded(const void* address, std::size_t octets, Access access) {
  // No local variable lives across the jump.
  if (WEFT_MARK(t_guard.jump) != 0) return false;
  t_guard.first = reinterpret_cast<std::uintptr_t>(address);
  t_guard.octets = octets;
  // Never so. But where GCC sees no call that could jump, it takes the mark's second return for one
  // that never comes, and leaves nothing to come back to.
  if (address == &t_guard) [[unlikely]]
    jump_back();
  __asm__ volatile("" ::: "memory");
  access();
  __asm__ volatile("" ::: "memory");
  t_guard.octets = 0;
  return true;
}

}  // namespace

void GuardedMover::install_handler() {
  static std::mutex mutex;
  const std::scoped_lock hold(mutex);
  install_for(SIGSEGV, g_segv);
  install_for(SIGBUS, g_bus);
}

std::uint32_t GuardedMover::crc_extend(std::uint32_t state, Octets data) {
  return crc32c_extend(state, data);
}

bool GuardedMover::crc_registered(std::uint32_t* state, const std::uint8_t* source,
                                  std::size_t octets) {
  return timed(sends_cold_, octets, [&](bool ahead) {
    return guarded(source, octets, [&] {
      *state = (ahead ? crc32c_extend_ahead : crc32c_extend)(*state, Octets(source, octets));
    });
  });
}

bool GuardedMover::fetch(std::uint8_t* target, const std::uint8_t* source, std::size_t octets,
                         std::uint32_t* state, core::ReadBy read_by) {
  const bool elsewhere = read_by == core::ReadBy::AnotherCore && octets >= kFetchedPastOctetsMin;
  StoreHabit& habit = state == nullptr ? stores_ : summed_stores_;
  const bool past = elsewhere && habit.goes_past(octets);
  const bool tells = elsewhere && !past && octets >= kTimedOctetsMin;
  const std::uint64_t began = tells ? ticks() : 0;
  const bool done = guarded(source, octets, [&] {
    if (state == nullptr) return (past ? copy_past : copy)(target, Octets(source, octets));
    *state = (past ? crc32c_copy_past : crc32c_copy)(*state, MutableOctets(target, octets),
                                                     Octets(source, octets));
  });
  if (done && tells) habit.note(octets, ticks() - began);
  return done;
}

bool GuardedMover::place(std::uint8_t* target, Octets source, std::uint32_t* state) {
  const bool past =
      source.size() >= kPlacedPastOctetsMin && !recent_places_.note(target, source.size());
  return guarded(target, source.size(), [&] {
    if (state == nullptr) return (past ? copy_past : copy)(target, source);
    *state = (past ? crc32c_place_past : crc32c_place)(*state, {target, source.size()}, source);
  });
}

//= EXT-07
bool GuardedMover::update(std::uint8_t* target, const core::AtomicChange& change,
                          std::uint64_t* original) {
  return guarded(target, sizeof *original, [&] {
    // Registered memory holds what its owner makes of it; here it is a number.
    std::atomic_ref<std::uint64_t> number(*reinterpret_cast<std::uint64_t*>(target));
    *original = number.load();
    for (;;) {
      const std::uint64_t changed = change.applied_to(*original);
      if (changed == *original || number.compare_exchange_weak(*original, changed)) return;
    }
  });
}

}  // namespace weft::engine

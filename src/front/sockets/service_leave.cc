// The end of a process by _exit, which a signal handler may call that has interrupted anything.
//
// The thread that calls it may hold the lock of malloc, of stdio or of the dynamic loader, which
// nobody releases any more. So it only asks the service's thread, and waits; that one lets all
// streams leave, and does so without malloc and free, since it may share an arena with the other.
// Where it gets stuck nevertheless (the device's thread, or another of the program's, may want
// memory while it has a lock) it is seen by its beats, and the process ends as it stands.
#include <linux/futex.h>
#include <pthread.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdint>

#include "base/signals.h"
#include "front/sockets/kernel.h"
#include "front/sockets/no_memory.h"
#include "front/sockets/our_verbs.h"
#include "front/sockets/service.h"

namespace weft::sockets {
namespace {

/// Who waits looks so often whether the thread has done something, and so often in vain, which is a
/// second, before it gives up. Counted, since a stopped process is no sign of a stuck thread.
constexpr long kLookNs = 50'000'000;
constexpr int kLooksMax = 20;

constexpr auto kFirstPause = std::chrono::microseconds(50);
constexpr auto kLongestPause = std::chrono::milliseconds(1);

/// Null: with another verbs library the end of a connection is an event, which needs memory.
const auto weft_exits = of_our_verbs<void (*)()>("weft_exits");

/// The calling thread handles no signal any more. One that has no handler ends the process still.
void take_no_handlers() {
  sigset_t handled;
  sigemptyset(&handled);
  for (int number = 1; number < _NSIG; ++number) {
    if (is_handled(number)) sigaddset(&handled, number);
  }
  pthread_sigmask(SIG_BLOCK, &handled, nullptr);
}

}  // namespace

void Service::leave(Clock::duration patience) {
  // The child of a fork that nobody heard of (_Fork, clone) has no thread. And a fault's handler
  // may run in the service's own.
  if (process_ != ::getpid() || is_service_thread()) return;
  take_no_handlers();
  end_jumped_sleep();
  Leaving none = Leaving::No;
  leaving_.compare_exchange_strong(none, Leaving::Asked);
  wake(wake_);
  const auto last = Clock::now() + patience;
  std::uint32_t seen = beats_.load(std::memory_order_relaxed);
  for (int looks = 0; looks < kLooksMax && Clock::now() < last; ++looks) {
    if (leaving_.load(std::memory_order_acquire) == Leaving::Done) return;
    const timespec wait{0, kLookNs};
    ::syscall(SYS_futex, &leaving_, FUTEX_WAIT_PRIVATE, static_cast<std::uint32_t>(Leaving::Asked),
              &wait, nullptr, 0);
    const std::uint32_t beats = beats_.load(std::memory_order_relaxed);
    if (beats != seen) looks = 0;
    seen = beats;
  }
}

void Service::handle_leaving() {
  if (weft_exits != nullptr) weft_exits();
  begin_leaving();
  go_on_leaving();
  leaving_.store(Leaving::Done, std::memory_order_release);
  ::syscall(SYS_futex, &leaving_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

/// All that have a connection, or wait for its end.
void Service::begin_leaving() {
  {
    std::lock_guard lock(mutex_);
    for (const auto& entry : ids_) {
      if (leavers_.size() < leavers_.capacity()) leavers_.push_back(entry.second);
    }
  }
  // Who has to be handed over needs memory: after all that need none.
  auto others = leavers_.begin();
  for (SocketPtr& socket : leavers_) {
    beat();
    if (socket->begin_leaving()) std::swap(socket, *others++);
  }
  for (auto one = leavers_.begin(); one != others; ++one) {
    attempt([&] { (*one)->hand_over(); });
  }
}

void Service::go_on_leaving() {
  Clock::duration pause = kFirstPause;
  for (;;) {
    Socket* waits = nullptr;
    for (const SocketPtr& socket : leavers_) {
      beat();
      bool left = true;
      attempt([&] { left = socket->go_on_leaving(); });
      if (!left) waits = socket.get();
    }
    if (waits == nullptr) return;
    waits->ask_device();
    if (weft_exits == nullptr) handle_connection_events();
    const timespec moment{0, std::chrono::nanoseconds(pause).count()};
    kernel::ppoll(nullptr, 0, &moment);
    pause = std::min<Clock::duration>(2 * pause, kLongestPause);
  }
}

}  // namespace weft::sockets

// By a futex; pushed, by a timerfd: the end of a wait for a futex cannot be put off.
#include "engine/thread/nap.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/number_gate.h"
#include "transport/tcp/syscalls.h"

namespace weft::engine {

namespace raw = transport::raw;

namespace {
constexpr std::int64_t kSecond = 1'000'000'000;

bool set_absolute(int timer, std::int64_t ns) {
  itimerspec setting = {};
  setting.it_value.tv_sec = static_cast<time_t>(ns / kSecond);
  setting.it_value.tv_nsec = static_cast<long>(ns % kSecond);
  return ::timerfd_settime(timer, TFD_TIMER_ABSTIME, &setting, nullptr) == 0;
}
}  // namespace

Nap::~Nap() {
  if (timer_ >= 0) ::close(timer_);
}

void Nap::open() {
  timer_ = make_descriptor(Numbers::OutOfTheWay, [] {
    return ::syscall(SYS_timerfd_create, CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  });
}

bool Nap::wait(int us) {
  word_.store(kAsleep, std::memory_order_seq_cst);
  const timespec time = {0, us * 1000L};
  ::syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, kAsleep, &time, nullptr, 0);
  return word_.exchange(kAwake, std::memory_order_seq_cst) != kInterrupted;
}

bool Nap::wait_pushed() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  // A program may have closed the descriptor.
  if (!set_timer({std::int64_t{now.tv_sec} * kSecond + now.tv_nsec})) return true;
  word_.store(kAsleepPushed, std::memory_order_seq_cst);
  // Not read: to set it anew makes it forget that it expired.
  pollfd expired = {timer_, POLLIN, 0};
  // Nor for ever if the descriptor is another one's timer by now.
  timespec most = {1, 0};
  raw::call(SYS_ppoll, &expired, 1, &most, nullptr, 0);
  return word_.exchange(kAwake, std::memory_order_seq_cst) != kInterrupted;
}

void Nap::push_timer(Instant now) {
  set_timer(now);
  // Pairs with interrupt, which may have made it expire just before. If the next wait has begun
  // meanwhile, that one ends at once: early, and never late.
  if (word_.load(std::memory_order_seq_cst) != kAsleepPushed) expire_timer();
}

void Nap::interrupt() {
  std::uint32_t seen = word_.load(std::memory_order_relaxed);
  if ((seen != kAsleep && seen != kAsleepPushed) ||
      !word_.compare_exchange_strong(seen, kInterrupted, std::memory_order_seq_cst)) {
    return;
  }
  if (seen == kAsleep) {
    ::syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  } else {
    expire_timer();
  }
}

bool Nap::set_timer(Instant now) {
  set_ns_.store(now.ns, std::memory_order_relaxed);
  return set_absolute(timer_, (now + kPushed).ns);
}

void Nap::expire_timer() {
  set_absolute(timer_, 1);  // long ago
}

}  // namespace weft::engine

// epoll, eventfd and timerfd.
#include "engine/poller.h"

#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/number_gate.h"
#include "transport/tcp/syscalls.h"

namespace weft::engine {

namespace raw = transport::raw;

namespace {
constexpr std::uint64_t kWakeKey = 0;
constexpr std::uint64_t kTimerKey = UINT64_MAX;
constexpr std::int64_t kSecond = 1'000'000'000;
}  // namespace

Poller::~Poller() {
  if (epoll_ >= 0) ::close(epoll_);
  if (wake_ >= 0) ::close(wake_);
  if (timer_ >= 0) ::close(timer_);
}

Result<void> Poller::open() {
  epoll_ = make_descriptor(Numbers::OutOfTheWay,
                           [] { return ::syscall(SYS_epoll_create1, EPOLL_CLOEXEC); });
  wake_ = make_descriptor(Numbers::OutOfTheWay, [] {
    return ::syscall(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK);
  });
  if (epoll_ < 0 || wake_ < 0) return Error{errno, "no descriptors left for the engine's poller"};
  return add(wake_, EPOLLIN, kWakeKey);
}

Result<void> Poller::control(int operation, int fd, std::uint32_t events, std::uint64_t key) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = key;
  // By number, as all calls for a stream's descriptor are (transport/tcp/syscalls.h). Of two kinds
  // ThreadSanitizer would see this one and not the close: whoever has the number next and closes it
  // would be in a race with us.
  const long result = raw::call(SYS_epoll_ctl, epoll_, operation, fd, &event);
  if (result == 0) return {};
  return Error{static_cast<int>(-result),
               "the engine's poller cannot watch the descriptor (epoll_ctl)"};
}

Result<void> Poller::add(int fd, std::uint32_t events, std::uint64_t key) {
  return control(EPOLL_CTL_ADD, fd, events, key);
}

Result<void> Poller::modify(int fd, std::uint32_t events, std::uint64_t key) {
  return control(EPOLL_CTL_MOD, fd, events, key);
}

void Poller::remove(int fd) {
  static_cast<void>(control(EPOLL_CTL_DEL, fd, 0, 0));
}

std::span<const epoll_event> Poller::wait(int timeout_ms, std::span<epoll_event> out) {
  return take_and_keep(ask(timeout_ms, out), out);
}

long Poller::ask(int timeout_ms, std::span<epoll_event> out) const {
  return raw::call(SYS_epoll_pwait, epoll_, out.data(), static_cast<int>(out.size()), timeout_ms,
                   nullptr, 0);
}

bool Poller::await(Duration most) {
  std::array<pollfd, 2> watched = {pollfd{epoll_, POLLIN, 0}, pollfd{wake_, POLLIN, 0}};
  timespec bound = {static_cast<time_t>(most.count() / kSecond),
                    static_cast<long>(most.count() % kSecond)};
  if (raw::call(SYS_ppoll, watched.data(), watched.size(), &bound, nullptr, 0) <= 0) return false;
  if (watched[1].revents != 0) take_wakeup();
  return true;
}

Result<void> Poller::sleep(int timeout_ms, const sigset_t& mask) {
  // epoll_wait itself would also end when the process is stopped and continued. ppoll and not poll:
  // a sockets preload replaces poll with a function that may come back here.
  pollfd watched = {epoll_, POLLIN, 0};
  const timespec bound = {timeout_ms / 1000, timeout_ms % 1000 * 1'000'000L};
  if (::ppoll(&watched, 1, timeout_ms < 0 ? nullptr : &bound, &mask) < 0) {
    return Error{errno, "the wait was interrupted"};
  }
  return {};
}

Result<bool> Poller::sleep_among(std::span<pollfd> more, const timespec* wait,
                                 const sigset_t* mask) {
  more.back() = {epoll_, POLLIN, 0};
  timespec rest{};  // the kernel counts it down
  if (wait != nullptr) rest = *wait;
  if (::syscall(SYS_ppoll, more.data(), more.size(), wait == nullptr ? nullptr : &rest, mask,
                std::size_t{_NSIG / 8}) < 0) {
    return Error{errno, "the wait was interrupted"};
  }
  return more.back().revents != 0;
}

std::span<const epoll_event> Poller::wait_briefly(Duration timeout, std::span<epoll_event> out,
                                                  bool& timer_due) {
  const timespec time = {0, static_cast<long>(timeout.count())};
  long n = raw::call(SYS_epoll_pwait2, epoll_, out.data(), static_cast<int>(out.size()), &time,
                     nullptr, 0);
  if (n < 0) n = ask(1, out);
  const auto events = out.first(static_cast<std::size_t>(std::max(n, 0L)));
  timer_due = std::any_of(events.begin(), events.end(),
                          [](const epoll_event& event) { return event.data.u64 == kTimerKey; });
  return take_and_keep(n, out);
}

std::span<const epoll_event> Poller::look(std::span<epoll_event> out) {
  return keep(ask(0, out), out);
}

void Poller::take_wakeup(std::span<const epoll_event> events) {
  for (const epoll_event& event : events) {
    if (event.data.u64 == kWakeKey) take_wakeup();
  }
}

void Poller::take_wakeup() {
  std::uint64_t count;
  raw::read(wake_, &count, sizeof count);
}

std::span<const epoll_event> Poller::take_and_keep(long n, std::span<epoll_event> out) {
  take_wakeup(out.first(static_cast<std::size_t>(std::max(n, 0L))));
  return keep(n, out);
}

std::span<const epoll_event> Poller::keep(long n, std::span<epoll_event> out) {
  std::size_t kept = 0;
  for (long i = 0; i < n; ++i) {
    const epoll_event& event = out[static_cast<std::size_t>(i)];
    // The timer is not read: it stays due until whoever serves it sets it anew, so that none is
    // missed by a thread whose clock was read a moment too early.
    if (event.data.u64 != kWakeKey && event.data.u64 != kTimerKey) out[kept++] = event;
  }
  return out.first(kept);
}

void Poller::wake() {
  const std::uint64_t one = 1;
  // The counter cannot overflow in any time that matters, and EAGAIN would mean "already awake".
  raw::write(wake_, &one, sizeof one);
}

Result<void> Poller::open_timer() {
  if (timer_ >= 0) return {};
  const int timer = make_descriptor(Numbers::OutOfTheWay, [] {
    return ::syscall(SYS_timerfd_create, CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  });
  if (timer < 0) return Error{errno, "no descriptor left for the engine's timer"};
  if (const Result<void> added = add(timer, EPOLLIN, kTimerKey); !added) {
    ::close(timer);
    return added;
  }
  timer_ = timer;
  return {};
}

void Poller::set_timer(std::optional<Instant> when) {
  itimerspec setting = {};
  if (when) {
    setting.it_value.tv_sec = static_cast<time_t>(when->ns / kSecond);
    setting.it_value.tv_nsec = static_cast<long>(when->ns % kSecond);
  }
  // Fails for a bad descriptor or time only. What has expired is forgotten with it.
  ::timerfd_settime(timer_, TFD_TIMER_ABSTIME, &setting, nullptr);
}

}  // namespace weft::engine

// A wait in which a program's thread works for the device.
#include "front/libibverbs/ppoll.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "front/libibverbs/export.h"
#include "verbs/process_runtime.h"

namespace weft::front {
namespace {

using Clock = std::chrono::steady_clock;

Clock::duration duration_of(const timespec& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// By number: no cancellation point, and no preload's ppoll.
int kernel_ppoll(pollfd* fds, nfds_t count, const timespec* wait, const sigset_t* mask) {
  timespec rest{};
  if (wait != nullptr) rest = *wait;
  return static_cast<int>(::syscall(SYS_ppoll, fds, count, wait == nullptr ? nullptr : &rest, mask,
                                    std::size_t{_NSIG / 8}));
}

/// In which device the calling thread sleeps. A signal handler may leave with longjmp, or end the
/// process from there: then this is still set in the thread's next call.
thread_local device::Device* asleep_in = nullptr;

device::Slept sleep_in(device::Device& device, const device::Watched& watched) {
  asleep_in = &device;
  const device::Slept slept = device.sleep_among(watched);
  asleep_in = nullptr;
  return slept;
}

}  // namespace
}  // namespace weft::front

WEFT_EXPORT int weft_ppoll(pollfd* fds, nfds_t count, const timespec* wait, const sigset_t* mask) {
  using weft::front::asleep_in;
  using weft::front::Clock;
  weft::device::Device* device = weft::verbs::ProcessRuntime::instance().started_device();
  if (asleep_in != nullptr && asleep_in == device) device->abandon_sleep();
  asleep_in = nullptr;
  if (device == nullptr || (wait != nullptr && wait->tv_sec == 0 && wait->tv_nsec == 0)) {
    return weft::front::kernel_ppoll(fds, count, wait, mask);
  }
  const auto start = wait != nullptr ? Clock::now() : Clock::time_point();
  switch (weft::front::sleep_in(*device, {fds, count, wait, mask})) {
    case weft::device::Slept::Look:
      return static_cast<int>(
          std::count_if(fds, fds + count, [](const pollfd& fd) { return fd.revents != 0; }));
    case weft::device::Slept::Interrupted:
      errno = EINTR;
      return -1;
    case weft::device::Slept::NotHere:
      break;
  }
  if (wait == nullptr) return weft::front::kernel_ppoll(fds, count, nullptr, mask);
  // It may have slept before it had to go.
  const auto left =
      std::max(weft::front::duration_of(*wait) - (Clock::now() - start), Clock::duration::zero());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
  const timespec rest{seconds.count(), (left - seconds).count()};
  return weft::front::kernel_ppoll(fds, count, &rest, mask);
}

WEFT_EXPORT void weft_look() {
  weft::device::Device* device = weft::verbs::ProcessRuntime::instance().started_device();
  if (device != nullptr) device->poll(weft::device::kNoCQ);
}

WEFT_EXPORT void weft_exits() {
  weft::device::Device* device = weft::verbs::ProcessRuntime::instance().started_device();
  if (device != nullptr) device->prepare_exit();
}

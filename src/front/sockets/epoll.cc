// Waiting in an epoll set with sockets of ours in it, and doing the service's work meanwhile.
//
// The set is the program's own and holds the sockets' descriptors, which show their readiness: what
// it answers is the kernel's word alone. Only who makes it true is decided here (docs/adr/0019).
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>

#include "base/signals.h"
#include "front/sockets/calls.h"
#include "front/sockets/kernel.h"
#include "front/sockets/no_memory.h"
#include "front/sockets/service.h"
#include "front/sockets/socket_wait.h"

namespace weft::sockets {
namespace {

/// A thread that has woken so often for sockets of other sets, one after the other, leaves serving
/// to who comes next.
constexpr unsigned kForOthersMax = 8;

/// The service that the calling thread serves for. A handler that jumps out of the sleep leaves it
/// set: then that turn ends with the thread's next.
thread_local Service* serving = nullptr;

class Turn {
 public:
  explicit Turn(Service& service) {
    end();
    if (service.begin_serving()) serving = &service;
  }
  ~Turn() { end(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  bool is_mine() const { return serving != nullptr; }
  static void end() {
    if (serving != nullptr) serving->end_serving();
    serving = nullptr;
  }
};

/// The kernel's own wait for what is left.
int wait_as_others(int epoll, epoll_event* events, int count, const Deadline& deadline,
                   const sigset_t* mask) {
  timespec room{};
  const timespec* rest = remaining(deadline, room);
  const int found = kernel::epoll_pwait2(epoll, events, count, rest, mask);
  if (found >= 0 || errno != ENOSYS) return found;
  // Linux before 5.11. Not before its time.
  const auto ms = room.tv_sec * 1000 + (room.tv_nsec + 999'999) / 1'000'000;
  const int wait_ms = rest == nullptr ? -1 : static_cast<int>(std::min<std::int64_t>(ms, INT_MAX));
  return kernel::epoll_pwait(epoll, events, count, wait_ms, mask);
}

}  // namespace

void end_jumped_turn() {
  Turn::end();
}

std::optional<int> epoll_wait(int epoll, epoll_event* events, int count, const timespec* wait,
                              const sigset_t* mask) try {
  Service* service = Service::existing();
  if (service == nullptr) return {};
  const Deadline deadline = deadline_after(wait);
  int found = kernel::epoll_wait(epoll, events, count, 0);
  if (found != 0) return found;
  Turn turn(*service);
  if (!turn.is_mine()) return {};
  // A handler runs where the kernel's call would run it, in the sleep, and ends that; or after all
  // is done. None runs, or jumps away, with a lock of ours held.
  const NoSignals none;
  const pollfd both[] = {{epoll, POLLIN, 0}, {service->completions(), POLLIN, 0}};
  unsigned for_others = 0;
  for (;;) {
    const auto is_something = [&] {
      if (Service::look()) return true;
      pollfd fds[] = {both[0], both[1]};
      const timespec at_once{};
      return kernel::ppoll(fds, 2, &at_once) > 0;
    };
    if (!look_for(deadline, is_something)) {
      pollfd fds[] = {both[0], both[1]};
      timespec room{};
      if (sleep(fds, 2, remaining(deadline, room), mask != nullptr ? mask : &none.before()) < 0) {
        return -1;
      }
    }
    const bool shown = service->serve_found();
    found = kernel::epoll_wait(epoll, events, count, 0);
    if (found != 0 || (deadline && *deadline <= Clock::now())) return found;
    if (shown && ++for_others == kForOthersMax) break;
  }
  Turn::end();
  return wait_as_others(epoll, events, count, deadline, mask != nullptr ? mask : &none.before());
} catch (const std::exception&) {
  return no_memory();
}

}  // namespace weft::sockets

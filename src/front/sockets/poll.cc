// poll and select over sockets of ours and other descriptors together.
//
// For the time of the call, a socket of ours is replaced by its completion channel: what arrives
// wakes the caller itself, which then drives the connection. No thread stands between.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <memory_resource>
#include <optional>
#include <vector>

#include "base/signals.h"
#include "front/sockets/calls.h"
#include "front/sockets/kernel.h"
#include "front/sockets/no_memory.h"
#include "front/sockets/socket_wait.h"

namespace weft::sockets {
namespace {

struct Polled {
  nfds_t at;
  SocketPtr socket;
  bool waits = false;
};

using PolledList = std::pmr::vector<Polled>;
using PollfdList = std::pmr::vector<pollfd>;

/// Room on the stack for what a call needs of a handful of descriptors; for more there is the heap.
class Room {
 public:
  std::pmr::memory_resource* pool() { return &pool_; }

 private:
  std::array<std::byte, 2048> octets_;
  std::pmr::monotonic_buffer_resource pool_{octets_.data(), octets_.size()};
};

/// While some socket is ready, the others' connections are driven this often: a program that always
/// has something to do asks far more often than anything else arrives.
constexpr auto kOften = std::chrono::microseconds(200);
constexpr auto kNever = Clock::duration::max();

/// The events of ours that hold now; how many descriptors have some. Who was driven less than `age`
/// ago is not driven now.
int look(const PolledList& polled, pollfd* fds, Clock::time_point now, Clock::duration age) {
  int ready = 0;
  for (const Polled& one : polled) {
    fds[one.at].revents = one.socket->poll_events(fds[one.at].events, now, age);
    if (fds[one.at].revents != 0) ++ready;
  }
  return ready;
}

/// The same, and before it says that there is none, all are driven.
int look(const PolledList& polled, pollfd* fds, Clock::time_point now) {
  if (const int ready = look(polled, fds, now, kOften); ready != 0) return ready;
  return look(polled, fds, now, Clock::duration(1));
}

/// One of them fell back to TCP, under the same number.
bool has_moved(const PolledList& polled) {
  return std::any_of(polled.begin(), polled.end(),
                     [](const Polled& one) { return one.socket->has_moved(); });
}

void end_waits(PolledList& polled, const PollfdList& waited, int wake_fd) {
  for (Polled& one : polled) {
    if (!std::exchange(one.waits, false)) continue;
    const bool readable = (waited[one.at].revents & POLLIN) != 0;
    attempt([&] { one.socket->end_wait(wake_fd, readable); });
  }
}

/// Whatever ends the call ends its waits.
struct EndOfWaits {
  PolledList& polled;
  const PollfdList& waited;
  int wake_fd;
  ~EndOfWaits() { end_waits(polled, waited, wake_fd); }
};

/// What the kernel waits for: the others as they are, ours by what wakes us, and our wake fd last.
void begin_waits(PolledList& polled, PollfdList& waited, int wake_fd) {
  for (Polled& one : polled) {
    waited[one.at] = {one.socket->begin_wait(wake_fd), POLLIN, 0};
    one.waits = true;
  }
  waited.push_back({wake_fd, POLLIN, 0});
}

/// poll, by who has just looked at the clock: what is ready at once needs no second look.
int poll_at(Clock::time_point now, pollfd* fds, nfds_t count, const timespec* wait,
            const sigset_t* mask) {
  Room room_of_lists;
  PolledList polled(room_of_lists.pool());
  for (nfds_t i = 0; i < count; ++i) {
    if (auto socket = sockets().find(fds[i].fd);
        socket != nullptr && socket->made_in == fork_generation()) {
      polled.push_back({i, std::move(socket)});
    }
  }
  if (polled.empty()) return kernel::ppoll(fds, count, wait, mask);
  if (wait != nullptr && !is_time(*wait)) {
    errno = EINVAL;
    return -1;
  }
  const auto wake_fd = own_wake_fd();
  if (!wake_fd) {
    errno = ENOMEM;
    return -1;
  }
  const Deadline deadline = deadline_after(wait, now);
  const auto look_now = [&] { return look(polled, fds, now = Clock::now()); };
  PollfdList waited(room_of_lists.pool());
  std::optional<NoSignals> none;  // but in the sleep: what came while this looked went unheard
  for (bool first = true;; first = false) {
    // Ours are ready: the others are asked without waiting.
    int ready = first ? look(polled, fds, now) : look_now();
    // Nobody else can end this wait: what comes soon is worth looking for.
    if (ready == 0 && first && polled.size() == count) {
      look_for(deadline, [&] { return (ready = look_now()) != 0; });
    }
    if (ready != 0 && polled.size() == count) return ready;
    if (!none) none.emplace();
    const sigset_t* const asleep = mask != nullptr ? mask : &none->before();
    const EndOfWaits end{polled, waited, *wake_fd};
    timespec room{};
    const timespec* rest = &room;
    waited.reserve(count + 1);
    waited.assign(fds, fds + count);
    if (ready == 0) {
      begin_waits(polled, waited, *wake_fd);
      if (has_moved(polled)) {
        end_waits(polled, waited, *wake_fd);
        return poll_at(Clock::now(), fds, count, remaining(deadline, room), mask);
      }
      ready = look(polled, fds, {}, kNever);  // what came before its channel was armed
      if (ready == 0 && !(first && deadline && *deadline <= Clock::now())) {
        rest = remaining(deadline, room);
      }
    } else {
      for (const Polled& one : polled) waited[one.at].fd = -1;
    }
    const bool completes = std::any_of(polled.begin(), polled.end(),
                                       [&](const Polled& one) { return waited[one.at].fd >= 0; });
    const int found = (completes ? sleep : sleep_idly)(waited.data(), waited.size(), rest, asleep);
    const int code = errno;
    if (waited.size() > count && waited[count].revents != 0) settle(*wake_fd);
    end_waits(polled, waited, *wake_fd);
    if (found < 0 && ready == 0) {
      errno = code;
      return -1;
    }
    ready = look_now();
    for (nfds_t i = 0, next = 0; i < count; ++i) {
      if (next < polled.size() && polled[next].at == i) {
        ++next;
        continue;
      }
      fds[i].revents = found < 0 ? short{0} : waited[i].revents;
      if (fds[i].revents != 0) ++ready;
    }
    if (ready != 0 || (deadline && *deadline <= now)) return ready;
    if (takes_signal(*asleep)) {
      errno = EINTR;
      return -1;
    }
  }
}

}  // namespace

int poll(pollfd* fds, nfds_t count, const timespec* wait, const sigset_t* mask) try {
  return poll_at(Clock::now(), fds, count, wait, mask);
} catch (const std::exception&) {
  return no_memory();
}

int select(int count, fd_set* readable, fd_set* writable, fd_set* exceptional, timespec* wait,
           const sigset_t* mask) try {
  if (count < 0 || (wait != nullptr && !is_time(*wait))) {
    errno = EINVAL;
    return -1;
  }
  Room room_of_lists;
  PollfdList fds(room_of_lists.pool());
  const auto in = [](int fd, const fd_set* set) { return set != nullptr && FD_ISSET(fd, set); };
  for (int fd = 0; fd < count && fd < FD_SETSIZE; ++fd) {
    int events = 0;
    if (in(fd, readable)) events |= POLLIN;
    if (in(fd, writable)) events |= POLLOUT;
    if (in(fd, exceptional)) events |= POLLPRI;
    if (events != 0) fds.push_back({fd, static_cast<short>(events), 0});
  }
  const auto now = Clock::now();
  const Deadline deadline = deadline_after(wait, now);
  const int found = poll_at(now, fds.data(), fds.size(), wait, mask);
  if (deadline) remaining(deadline, *wait);
  if (found < 0) return -1;
  int ready = 0;
  for (const pollfd& one : fds) {
    if ((one.revents & POLLNVAL) != 0) {
      errno = EBADF;
      return -1;
    }
    const auto answer = [&](fd_set* set, int events) {
      if (!in(one.fd, set)) return;
      if ((one.revents & events) != 0) {
        ++ready;
      } else {
        FD_CLR(one.fd, set);
      }
    };
    answer(readable, POLLIN | POLLHUP | POLLERR);
    answer(writable, POLLOUT | POLLERR);
    answer(exceptional, POLLPRI);
  }
  return ready;
} catch (const std::exception&) {
  return no_memory();
}

}  // namespace weft::sockets

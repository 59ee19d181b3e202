// poll and select over sockets of ours and other descriptors together.
//
// For the time of the call, a socket of ours is replaced by its completion channel: what arrives
// wakes the caller itself, which then drives the connection. No thread stands between.
#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "front/sockets/calls.h"
#include "front/sockets/kernel.h"
#include "front/sockets/socket_wait.h"

namespace weft::sockets {
namespace {

struct Polled {
  nfds_t at;
  SocketPtr socket;
  bool waits = false;
};

/// The events of ours that hold now, after asking the device if it `drives`; how many descriptors
/// have some.
int look(const std::vector<Polled>& polled, pollfd* fds, bool drives) {
  int ready = 0;
  for (const Polled& one : polled) {
    fds[one.at].revents = one.socket->poll_events(fds[one.at].events, drives);
    if (fds[one.at].revents != 0) ++ready;
  }
  return ready;
}

void end_waits(std::vector<Polled>& polled, const std::vector<pollfd>& waited, int wake_fd) {
  for (Polled& one : polled) {
    if (!std::exchange(one.waits, false)) continue;
    one.socket->end_wait(wake_fd, (waited[one.at].revents & POLLIN) != 0);
  }
}

/// What the kernel waits for: the others as they are, ours by what wakes us, and our wake fd last.
std::vector<pollfd> begin_waits(std::vector<Polled>& polled, const pollfd* fds, nfds_t count,
                                int wake_fd) {
  std::vector<pollfd> waited(fds, fds + count);
  for (Polled& one : polled) {
    waited[one.at] = {one.socket->begin_wait(wake_fd), POLLIN, 0};
    one.waits = true;
  }
  waited.push_back({wake_fd, POLLIN, 0});
  return waited;
}

}  // namespace

int poll(pollfd* fds, nfds_t count, const timespec* wait, const sigset_t* mask) {
  std::vector<Polled> polled;
  for (nfds_t i = 0; i < count; ++i) {
    if (auto socket = sockets().find(fds[i].fd);
        socket != nullptr && socket->made_in == fork_generation()) {
      polled.push_back({i, std::move(socket)});
    }
  }
  if (polled.empty()) return kernel::ppoll(fds, count, wait, mask);
  const auto wake_fd = own_wake_fd();
  if (!wake_fd) {
    errno = ENOMEM;
    return -1;
  }
  Deadline deadline;
  if (wait != nullptr) {
    deadline =
        Clock::now() + std::chrono::seconds(wait->tv_sec) + std::chrono::nanoseconds(wait->tv_nsec);
  }
  for (bool first = true;; first = false) {
    // Ours are ready: the others are asked without waiting.
    int ready = look(polled, fds, true);
    // Nobody else can end this wait: what comes soon is worth looking for.
    if (ready == 0 && first && polled.size() == count) {
      look_for(deadline, [&] { return (ready = look(polled, fds, true)) != 0; });
    }
    if (ready != 0 && polled.size() == count) return ready;
    std::vector<pollfd> waited;
    timespec room{};
    const timespec* rest = &room;
    if (ready == 0) {
      waited = begin_waits(polled, fds, count, *wake_fd);
      ready = look(polled, fds, false);  // what came before its channel was armed
      if (ready == 0 && !(first && deadline && *deadline <= Clock::now())) {
        rest = remaining(deadline, room);
      }
    } else {
      waited.assign(fds, fds + count);
      for (const Polled& one : polled) waited[one.at].fd = -1;
    }
    const bool completes = std::any_of(polled.begin(), polled.end(),
                                       [&](const Polled& one) { return waited[one.at].fd >= 0; });
    const int found = (completes ? sleep : sleep_idly)(waited.data(), waited.size(), rest, mask);
    const int code = errno;
    if (waited.size() > count && waited[count].revents != 0) settle(*wake_fd);
    end_waits(polled, waited, *wake_fd);
    if (found < 0 && ready == 0) {
      errno = code;
      return -1;
    }
    ready = look(polled, fds, true);
    for (nfds_t i = 0, next = 0; i < count; ++i) {
      if (next < polled.size() && polled[next].at == i) {
        ++next;
        continue;
      }
      fds[i].revents = found < 0 ? short{0} : waited[i].revents;
      if (fds[i].revents != 0) ++ready;
    }
    if (ready != 0 || (deadline && *deadline <= Clock::now())) return ready;
  }
}

int select(int count, fd_set* readable, fd_set* writable, fd_set* exceptional, timespec* wait,
           const sigset_t* mask) {
  if (count < 0) {
    errno = EINVAL;
    return -1;
  }
  std::vector<pollfd> fds;
  const auto in = [](int fd, const fd_set* set) { return set != nullptr && FD_ISSET(fd, set); };
  for (int fd = 0; fd < count && fd < FD_SETSIZE; ++fd) {
    int events = 0;
    if (in(fd, readable)) events |= POLLIN;
    if (in(fd, writable)) events |= POLLOUT;
    if (in(fd, exceptional)) events |= POLLPRI;
    if (events != 0) fds.push_back({fd, static_cast<short>(events), 0});
  }
  const auto start = Clock::now();
  const int found = poll(fds.data(), fds.size(), wait, mask);
  if (wait != nullptr) {
    timespec room{};
    *wait = *remaining(Deadline(start + std::chrono::seconds(wait->tv_sec) +
                                std::chrono::nanoseconds(wait->tv_nsec)),
                       room);
  }
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
}

}  // namespace weft::sockets

// Waking threads, and what a signal does to them.
#include "front/sockets/waiter.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>

#include "base/number_gate.h"
#include "front/sockets/kernel.h"
#include "front/sockets/numbers.h"
#include "front/sockets/our_verbs.h"

namespace weft::sockets {
namespace {

std::atomic<unsigned> generation{0};

/// Registered before any other thread can ask.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { ++generation; });

/// Without a destructor: calls of the process's last moments come after those of thread_local
/// objects, and find what is said here.
struct WakeFd {
  int fd = -1;
  unsigned made_in = 0;
};
thread_local WakeFd own;

void forget() {
  if (own.fd >= 0) kernel::close(own.fd);
  own.fd = -1;
}

struct AtThreadEnd {
  ~AtThreadEnd() { forget(); }
};
thread_local AtThreadEnd at_thread_end;

}  // namespace

Result<int> make_event_fd() {
  int fd = -1, code = 0;
  beside_dup3([&] {
    fd = out_of_the_way(kernel::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    code = errno;
  });
  if (fd < 0) return Error{code, "no descriptor to wait on"};
  return fd;
}

Result<int> own_wake_fd() {
  if (own.made_in != generation.load(std::memory_order_relaxed)) forget();
  if (own.fd < 0) {
    const Result<int> made = make_event_fd();
    if (!made) return made.error();
    own.fd = *made;
    own.made_in = generation.load(std::memory_order_relaxed);
    static_cast<void>(at_thread_end);  // is made when it is first named
  }
  return own.fd;
}

int made_wake_fd() {
  return own.made_in == generation.load(std::memory_order_relaxed) ? own.fd : -1;
}

void wake(int wake_fd) {
  const std::uint64_t one = 1;
  kernel::write(wake_fd, &one, sizeof one);
}

void settle(int wake_fd) {
  std::uint64_t count = 0;
  kernel::read(wake_fd, &count, sizeof count);
}

Patience& own_patience() {
  thread_local Patience own_one;
  return own_one;
}

namespace {
thread_local bool is_asleep = false;

const auto weft_look = of_our_verbs<void (*)()>("weft_look");
const auto weft_ppoll =
    of_our_verbs<int (*)(pollfd*, nfds_t, const timespec*, const sigset_t*)>("weft_ppoll");
}  // namespace

void end_jumped_sleep() {
  if (!is_asleep) return;
  const timespec at_once{};
  sleep(nullptr, 0, &at_once);
  end_jumped_turn();
}

void look() {
  if (weft_look != nullptr) weft_look();
}

int sleep(pollfd* fds, nfds_t count, const timespec* wait, const sigset_t* mask) {
  is_asleep = true;
  const int found = weft_ppoll != nullptr ? weft_ppoll(fds, count, wait, mask)
                                          : kernel::ppoll(fds, count, wait, mask);
  is_asleep = false;
  return found;
}

int sleep_idly(pollfd* fds, nfds_t count, const timespec* wait, const sigset_t* mask) {
  end_jumped_sleep();
  return kernel::ppoll(fds, count, wait, mask);
}

unsigned fork_generation() {
  return generation.load(std::memory_order_relaxed);
}

}  // namespace weft::sockets

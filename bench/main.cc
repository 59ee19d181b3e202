// Forks the two ends of each figure, looks after them, and prints what they found.
//
// They part before anything is opened, so that each has its own libraries' state.
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/measure.h"

namespace weft::bench {
namespace {

/// Prints a failure as one line, so that those of both ends do not mix.
void complain(const char* end, const Point& point, const std::string& text) {
  fmt::print(stderr, "weft_bench: {} of {}: {}\n", end, point_text(point), text);
  std::fflush(stderr);
}

constexpr const char* kNames[] = {"leader", "follower"};

[[noreturn]] void run_end(unsigned end, const Options& options, const Point& point, Over over,
                          int control_fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  pin_end(end);
  try {
    Control control(control_fd);
    if (end == 0) {
      fmt::print("{}\n", lead(options, point, over, control).dump());
      if (std::fflush(stdout) != 0) fail_errno("cannot write");
    } else {
      follow(options, point, over, control);
    }
  } catch (const std::exception& error) {
    complain(kNames[end], point, error.what());
    std::_Exit(1);
  }
  std::_Exit(0);
}

/// What an end came to, told if it could not tell itself.
bool ended_well(unsigned end, const Point& point, int status) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
    complain(kNames[end], point, "no end in sight; gave up");
  } else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) {
    complain(kNames[end], point, fmt::format("killed by {}", ::strsignal(WTERMSIG(status))));
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// False: it failed, and why has been printed.
bool measure_one(const Options& options, const Point& point, Over over) {
  int control[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0) {
    fail_errno("socketpair");
  }
  std::fflush(nullptr);
  std::array<pid_t, 2> children{};
  for (unsigned end = 0; end < 2; ++end) {
    children[end] = ::fork();
    if (children[end] == 0) {
      ::close(control[1 - end]);
      run_end(end, options, point, over, control[end]);
    }
  }
  ::close(control[0]);
  ::close(control[1]);
  bool good = true;
  for (int left = 2; left > 0; --left) {
    int status = 0;
    const pid_t child = ::wait(&status);
    const unsigned end = child == children[0] ? 0 : 1;
    if (ended_well(end, point, status)) continue;
    good = false;
    // Who died without a word takes the other with it.
    if (left == 2) ::kill(children[1 - end], SIGKILL);
  }
  return good;
}

int run_main(int argc, char** argv) {
  Options options;
  if (const auto status = parse_options(argc, argv, &options)) return *status;
  for (const Point& point : options.points) {
    for (const Over over : options.over) {
      if (point.work == Work::IdleMemory && over == Over::TCP && options.over.size() > 1) continue;
      try {
        if (!measure_one(options, point, over)) return 1;
      } catch (const Failure& failure) {
        fmt::print(stderr, "weft_bench: {}\n", failure.what());
        return 1;
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) { return weft::bench::run_main(argc, argv); }

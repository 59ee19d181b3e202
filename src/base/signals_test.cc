// What a thread takes of its program's signals, and what a wait that one ended becomes.
#include "base/signals.h"

#include <gtest/gtest.h>

#include <csignal>

namespace weft {
namespace {

volatile std::sig_atomic_t heard = 0;

/// A handler for the time of a test.
class Handled {
 public:
  Handled(int signal, int flags) : signal_(signal) {
    struct sigaction action = {};
    action.sa_handler = [](int) { heard = heard + 1; };
    action.sa_flags = flags;
    sigaction(signal, &action, &before_);
  }
  ~Handled() { sigaction(signal_, &before_, nullptr); }
  Handled(const Handled&) = delete;
  Handled& operator=(const Handled&) = delete;

 private:
  int signal_;
  struct sigaction before_;
};

TEST(Signals, WhatIsRaisedMeanwhileIsPendingAtItsEnd) {
  const Handled handled(SIGUSR1, 0);
  heard = 0;
  {
    const NoSignals none;
    raise(SIGUSR1);
    EXPECT_EQ(heard, 0);
  }
  EXPECT_EQ(heard, 1);
}

TEST(Signals, OneThatWaitsIsTakenAndToldOf) {
  const Handled handled(SIGUSR1, 0);
  heard = 0;
  const NoSignals none;
  EXPECT_FALSE(takes_signal(none.before()));
  raise(SIGUSR1);
  EXPECT_TRUE(takes_signal(none.before()));
  EXPECT_EQ(heard, 1);
  EXPECT_FALSE(takes_signal(none.before()));
  raise(SIGUSR1);
  sigset_t all;
  sigfillset(&all);
  EXPECT_FALSE(takes_signal(all)) << "which the program has blocked itself";
  raise(SIGCHLD);
  EXPECT_TRUE(takes_signal(none.before())) << "SIGUSR1; SIGCHLD is ignored, and nothing";
}

TEST(Signals, OneHandlerThatDoesNotRestartIsEnough) {
  EXPECT_TRUE(handlers_restart()) << "there is none";
  const Handled restarts(SIGUSR1, SA_RESTART);
  EXPECT_TRUE(is_handled(SIGUSR1));
  EXPECT_FALSE(is_handled(SIGUSR2));
  EXPECT_TRUE(handlers_restart());
  {
    const Handled ends(SIGUSR2, 0);
    EXPECT_FALSE(handlers_restart());
  }
  EXPECT_TRUE(handlers_restart());
  const Handled real_time(SIGRTMIN + 1, 0);
  EXPECT_FALSE(handlers_restart());
}

}  // namespace
}  // namespace weft

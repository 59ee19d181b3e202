// Signals that a stretch of our code raises, and those that it does not.
#include "front/sockets/no_sigpipe.h"

#include <gtest/gtest.h>

namespace weft::sockets {
namespace {

volatile std::sig_atomic_t heard = 0;

class NoSigpipeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    heard = 0;
    before_ = std::signal(SIGPIPE, [](int) { heard = heard + 1; });
  }
  void TearDown() override { std::signal(SIGPIPE, before_); }

 private:
  void (*before_)(int) = SIG_DFL;
};

TEST_F(NoSigpipeTest, TheProgramDoesNotHearOfOneThatIsRaisedWithin) {
  {
    const NoSigpipe guard(true);
    std::raise(SIGPIPE);
  }
  EXPECT_EQ(heard, 0);
  std::raise(SIGPIPE);
  EXPECT_EQ(heard, 1) << "the mask is as it was";
}

TEST_F(NoSigpipeTest, OneThatWaitedBeforeIsLeftToTheProgram) {
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  std::raise(SIGPIPE);
  {
    const NoSigpipe guard(true);
    std::raise(SIGPIPE);
  }
  EXPECT_EQ(heard, 0);
  pthread_sigmask(SIG_UNBLOCK, &pipe, nullptr);
  EXPECT_EQ(heard, 1);
}

TEST_F(NoSigpipeTest, OffItDoesNothing) {
  const NoSigpipe guard(false);
  std::raise(SIGPIPE);
  EXPECT_EQ(heard, 1);
}

}  // namespace
}  // namespace weft::sockets

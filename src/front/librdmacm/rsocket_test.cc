// rpoll and rselect on ordinary descriptors; the rsocket calls refuse.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/rsocket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <limits>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

class RSocketTest : public ::testing::Test {
 protected:
  RSocketTest() { EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0); }
  ~RSocketTest() override {
    close(ends[0]);
    close(ends[1]);
  }
  void fill() { EXPECT_EQ(write(ends[1], "x", 1), 1); }
  fd_set readable() const {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    return set;
  }
  int select_for(timeval* timeout) {
    fd_set set = readable();
    const int ready = rselect(ends[0] + 1, &set, nullptr, nullptr, timeout);
    still_set = FD_ISSET(ends[0], &set) != 0;
    return ready;
  }

  int ends[2] = {-1, -1};
  bool still_set = false;
};

/// Interrupts the calling thread once, soon.
class Interruption {
 public:
  Interruption() {
    struct sigaction action = {};
    action.sa_handler = [](int) {};
    sigaction(SIGALRM, &action, &before_);
    const itimerval soon = {{0, 0}, {0, 50'000}};
    setitimer(ITIMER_REAL, &soon, nullptr);
  }
  ~Interruption() { sigaction(SIGALRM, &before_, nullptr); }
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

 private:
  struct sigaction before_ = {};
};

TEST_F(RSocketTest, PollWaitsAndReports) {
  std::array<pollfd, 3> fds = {{{ends[0], POLLIN, 0}, {ends[1], POLLOUT, 0}, {-1, POLLIN, 7}}};
  EXPECT_EQ(rpoll(fds.data(), 3, 0), 1);
  EXPECT_EQ(fds[0].revents, 0);
  EXPECT_EQ(fds[1].revents, POLLOUT);
  EXPECT_EQ(fds[2].revents, 0) << "negative descriptors are skipped";

  const auto start = Clock::now();
  EXPECT_EQ(rpoll(fds.data(), 1, 30), 0);
  EXPECT_GE(Clock::now() - start, milliseconds(30));
  EXPECT_EQ(rpoll(nullptr, 0, 1), 0);

  fill();
  for (int timeout : {-1, 0, 5000, std::numeric_limits<int>::min()}) {
    EXPECT_EQ(rpoll(fds.data(), 1, timeout), 1) << timeout;
    EXPECT_EQ(fds[0].revents, POLLIN);
  }
  pollfd closed = {9999, POLLIN, 0};
  EXPECT_EQ(rpoll(&closed, 1, -1), 1);
  EXPECT_EQ(closed.revents, POLLNVAL);
}

TEST_F(RSocketTest, PollEndsWithASignal) {
  const Interruption soon;
  pollfd fd = {ends[0], POLLIN, 0};
  EXPECT_EQ(rpoll(&fd, 1, -1), -1);
  EXPECT_EQ(errno, EINTR);
}

TEST_F(RSocketTest, SelectWaitsAndReports) {
  timeval none = {0, 0};
  EXPECT_EQ(select_for(&none), 0);
  EXPECT_FALSE(still_set);
  timeval moment = {0, 30'000};
  const auto start = Clock::now();
  EXPECT_EQ(select_for(&moment), 0);
  EXPECT_GE(Clock::now() - start, milliseconds(30));
  EXPECT_EQ(moment.tv_sec, 0);
  EXPECT_EQ(moment.tv_usec, 0);

  fill();
  EXPECT_EQ(select_for(nullptr), 1);
  EXPECT_TRUE(still_set);
  timeval rest = {10, 0};
  EXPECT_EQ(select_for(&rest), 1);
  EXPECT_TRUE(still_set);
  EXPECT_TRUE(rest.tv_sec == 9 || rest.tv_sec == 10) << "the time that remained";
}

TEST_F(RSocketTest, SelectTakesMicrosecondsBeyondASecond) {
  fill();
  timeval much = {1, 2'500'000};
  EXPECT_EQ(select_for(&much), 1);
  EXPECT_GE(much.tv_sec, 2);
  EXPECT_LT(much.tv_usec, 1'000'000);
}

TEST_F(RSocketTest, SelectRefusesTimesThatAreNone) {
  for (timeval wrong : {timeval{-1, 0}, timeval{0, -1},
                        timeval{std::numeric_limits<time_t>::max(), 1'000'000}}) {
    EXPECT_EQ(select_for(&wrong), -1) << wrong.tv_sec;
    EXPECT_EQ(errno, EINVAL);
  }
  timeval none = {0, 0};
  EXPECT_EQ(rselect(-1, nullptr, nullptr, nullptr, &none), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(RSocketTest, SelectEndsWithASignal) {
  const Interruption soon;
  EXPECT_EQ(select_for(nullptr), -1);
  EXPECT_EQ(errno, EINTR);
}

/// Each of them, also on a descriptor that is alive: it is left alone.
TEST_F(RSocketTest, TheRestRefuses) {
  int calls = 0;
  const auto refused = [&](auto result) {
    ++calls;
    const bool right = result == static_cast<decltype(result)>(-1) && errno == EOPNOTSUPP;
    errno = 0;
    return right;
  };
  const int fd = ends[0];
  char octets[8];
  iovec vector = {octets, sizeof octets};
  msghdr message = {};
  sockaddr_storage address = {};
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  int value = 0;
  EXPECT_TRUE(refused(rsocket(AF_INET, SOCK_STREAM, 0)));
  EXPECT_TRUE(refused(rbind(fd, plain, length)));
  EXPECT_TRUE(refused(rlisten(fd, 1)));
  EXPECT_TRUE(refused(raccept(fd, plain, &length)));
  EXPECT_TRUE(refused(rconnect(fd, plain, length)));
  EXPECT_TRUE(refused(rshutdown(fd, SHUT_RDWR)));
  EXPECT_TRUE(refused(rclose(fd)));
  EXPECT_TRUE(refused(rrecv(fd, octets, 1, 0)));
  EXPECT_TRUE(refused(rrecvfrom(fd, octets, 1, 0, plain, &length)));
  EXPECT_TRUE(refused(rrecvmsg(fd, &message, 0)));
  EXPECT_TRUE(refused(rsend(fd, octets, 1, 0)));
  EXPECT_TRUE(refused(rsendto(fd, octets, 1, 0, plain, length)));
  EXPECT_TRUE(refused(rsendmsg(fd, &message, 0)));
  EXPECT_TRUE(refused(rread(fd, octets, 1)));
  EXPECT_TRUE(refused(rreadv(fd, &vector, 1)));
  EXPECT_TRUE(refused(rwrite(fd, octets, 1)));
  EXPECT_TRUE(refused(rwritev(fd, &vector, 1)));
  EXPECT_TRUE(refused(rgetpeername(fd, plain, &length)));
  EXPECT_TRUE(refused(rgetsockname(fd, plain, &length)));
  EXPECT_TRUE(refused(rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &value, sizeof value)));
  EXPECT_TRUE(refused(rgetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &value, &length)));
  EXPECT_TRUE(refused(rfcntl(fd, F_GETFL)));
  EXPECT_TRUE(refused(riomap(fd, octets, 1, PROT_WRITE, 0, 0)));
  EXPECT_TRUE(refused(riounmap(fd, octets, 1)));
  EXPECT_TRUE(refused(riowrite(fd, octets, 1, 0, 0)));
  EXPECT_EQ(calls, 25);
  EXPECT_GE(fcntl(fd, F_GETFD), 0);
}

}  // namespace

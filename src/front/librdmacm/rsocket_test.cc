// The rsocket calls: on ordinary descriptors, and between two sockets of one process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <limits>
#include <vector>

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
  for (timeval wrong :
       {timeval{-1, 0}, timeval{0, -1}, timeval{std::numeric_limits<time_t>::max(), 1'000'000}}) {
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
TEST_F(RSocketTest, OrdinaryDescriptorsAreRefused) {
  int calls = 0;
  const auto refused = [&](auto result) {
    ++calls;
    const bool right = result == static_cast<decltype(result)>(-1) && errno == EBADF;
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
  EXPECT_EQ(calls, 24);
  EXPECT_GE(fcntl(fd, F_GETFD), 0);
}

TEST(RSocketMakingTest, OnlyStreamsCanBeMade) {
  struct Row {
    int domain, type, protocol, error;
  };
  for (const Row& row :
       {Row{AF_UNIX, SOCK_STREAM, 0, EAFNOSUPPORT}, Row{AF_INET, SOCK_DGRAM, 0, EOPNOTSUPP},
        Row{AF_INET, SOCK_STREAM, IPPROTO_UDP, EPROTONOSUPPORT}}) {
    EXPECT_EQ(rsocket(row.domain, row.type, row.protocol), -1);
    EXPECT_EQ(errno, row.error);
  }
}

/// Two connected sockets, both of this process; non-blocking connect, so that one thread is enough.
class RSocketPairTest : public ::testing::Test {
 protected:
  RSocketPairTest() {
    listener = rsocket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address;
    EXPECT_EQ(rbind(listener, plain, length), 0);
    EXPECT_EQ(rlisten(listener, 4), 0);
    EXPECT_EQ(rgetsockname(listener, plain, &length), 0);
    EXPECT_NE(address.sin_port, 0);
    client = rsocket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(rconnect(client, plain, length), 0) << "accepted by the service, before raccept";
    server = raccept(listener, nullptr, nullptr);
    EXPECT_GE(server, 0);
  }
  ~RSocketPairTest() override {
    for (const int fd : {client, server, listener}) {
      if (fd >= 0) rclose(fd);
    }
  }
  static short ready(int fd, short events, int timeout_ms) {
    pollfd one{fd, events, 0};
    rpoll(&one, 1, timeout_ms);
    return one.revents;
  }
  int listener = -1, client = -1, server = -1;
};

constexpr int kLongMs = 30'000;

TEST_F(RSocketPairTest, OctetsPassBothWays) {
  char got[16] = {};
  EXPECT_EQ(rsend(client, "question", 8, 0), 8);
  EXPECT_EQ(ready(server, POLLIN, kLongMs), POLLIN);
  EXPECT_EQ(rrecv(server, got, 4, MSG_PEEK), 4);
  EXPECT_EQ(rrecv(server, got, 8, MSG_WAITALL), 8);
  EXPECT_STREQ(got, "question");
  EXPECT_EQ(rwrite(server, "yes", 3), 3);
  EXPECT_EQ(rread(client, got, sizeof got), 3);
  EXPECT_EQ(rrecv(client, got, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(ready(client, POLLIN | POLLOUT, 0), POLLOUT);
}

TEST_F(RSocketPairTest, AWriterFillsTheRingsAndGoesOnWhenTheReaderReads) {
  const std::vector<char> piece(50'000, 'x');
  std::size_t sent = 0;
  // What is on its way to the peer's ring makes room again, so that is waited for.
  while (ready(client, POLLOUT, 300) == POLLOUT) {
    const ssize_t part = rsend(client, piece.data(), piece.size(), MSG_DONTWAIT);
    if (part > 0) sent += static_cast<std::size_t>(part);
  }
  EXPECT_GE(sent, 128u * 1024);
  std::vector<char> room(sent);
  EXPECT_EQ(rrecv(server, room.data(), sent, MSG_WAITALL), static_cast<ssize_t>(sent));
  EXPECT_EQ(ready(client, POLLOUT, kLongMs), POLLOUT);
}

TEST_F(RSocketPairTest, AShutdownIsTheEndForThePeer) {
  char got[8];
  EXPECT_EQ(rsend(client, "last", 4, 0), 4);
  EXPECT_EQ(rshutdown(client, SHUT_WR), 0);
  EXPECT_EQ(rsend(client, "no", 2, 0), -1);
  EXPECT_EQ(errno, EPIPE);
  EXPECT_EQ(rrecv(server, got, sizeof got, MSG_WAITALL), 4);
  EXPECT_EQ(rrecv(server, got, sizeof got, 0), 0);
  EXPECT_EQ(rsend(server, "answer", 6, 0), 6);
  EXPECT_EQ(rrecv(client, got, 6, MSG_WAITALL), 6);
}

TEST_F(RSocketPairTest, ACloseIsTheEndForThePeer) {
  char got[8];
  EXPECT_EQ(rsend(client, "bye", 3, 0), 3);
  EXPECT_EQ(rclose(client), 0);
  client = -1;
  EXPECT_EQ(rrecv(server, got, sizeof got, MSG_WAITALL), 3);
  EXPECT_EQ(rrecv(server, got, sizeof got, 0), 0);
  EXPECT_EQ(rsend(server, "x", 1, 0), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST_F(RSocketPairTest, CallsOutOfPlaceHaveTheErrnoOfSockets) {
  char got[8];
  sockaddr_in address{};
  address.sin_family = AF_INET;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(rconnect(client, plain, sizeof address), -1);
  EXPECT_EQ(errno, EISCONN);
  EXPECT_EQ(rrecv(listener, got, 1, 0), -1);
  EXPECT_EQ(errno, ENOTCONN);
  EXPECT_EQ(raccept(client, nullptr, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rrecv(client, got, 1, MSG_OOB), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rsetsockopt(client, SOL_SOCKET, 9999, got, 4), -1);
  EXPECT_EQ(errno, ENOPROTOOPT);
  int value = 0;
  socklen_t length = sizeof value;
  EXPECT_EQ(rgetsockopt(listener, SOL_SOCKET, SO_ACCEPTCONN, &value, &length), 0);
  EXPECT_EQ(value, 1);
}

TEST_F(RSocketPairTest, ReceivingGivesUpAfterItsTimeout) {
  const timeval moment{0, 50'000};
  EXPECT_EQ(rsetsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment), 0);
  char got;
  EXPECT_EQ(rrecv(client, &got, 1, 0), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(RSocketConnectTest, NobodyListens) {
  const int probe = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(probe, plain, length), 0);  // holds the port, and does not listen
  ASSERT_EQ(getsockname(probe, plain, &length), 0);
  const int fd = rsocket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(rconnect(fd, plain, length), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  rclose(fd);
  close(probe);
}

}  // namespace

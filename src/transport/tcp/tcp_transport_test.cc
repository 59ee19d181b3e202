// What is particular to kernel TCP; the rules common to all transports are in contract_test.cc.
#include "transport/tcp/tcp_transport.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>

#include "base/number_gate.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/syscalls.h"
#include "transport/tcp/tcp_stream.h"
#include "transport/test_streams.h"

namespace weft::transport {
namespace {

using namespace testing;
using Kind = IOResult::Kind;

class TCP : public ::testing::Test {
 protected:
  Pair connect_pair() { return make_pair_at(transport_, v4("127.0.0.1", 0)); }

  TCPTransport transport_;
};

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t length = sizeof value;
  EXPECT_EQ(::getsockopt(fd, level, name, &value, &length), 0);
  return value;
}

TEST_F(TCP, DescriptorsAreNonBlockingAndCloseOnExec) {
  Pair pair = connect_pair();
  for (int fd : {pair.listener->fd(), pair.active->fd(), pair.passive->fd()}) {
    EXPECT_TRUE(::fcntl(fd, F_GETFL) & O_NONBLOCK);
    EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC);
  }
}

TEST_F(TCP, TheProgramsDescriptorsGoOnWhereTheyWere) {
  const int before = ::dup(0);
  ::close(before);
  auto listener = transport_.listen(v4("127.0.0.1", 0), {});
  auto active = transport_.connect({}, (*listener)->local());
  ASSERT_TRUE(active.ok());
  const auto passive = accept_one(**listener);
  ASSERT_NE(passive, nullptr);
  const int after = ::dup(0);
  ::close(after);
  EXPECT_EQ(after, before);
}

// Where a process may have few, ours are in the upper half of them.
TEST_F(TCP, FewDescriptorsAreSharedWithTheProgram) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {std::min<rlim_t>(600, before.rlim_max), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const Socket socket(static_cast<int>(raw::open_socket(AF_INET, SOCK_STREAM, 0)));
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(socket.fd(), static_cast<int>(few.rlim_cur / 2));
  const Socket of_many(static_cast<int>(raw::open_socket(AF_INET, SOCK_STREAM, 0)));
  EXPECT_EQ(of_many.fd(), before.rlim_cur > 2048 ? 2048 : static_cast<int>(before.rlim_cur / 2));
}

// A program may put something under a number that is free. A thread of ours may have it then.
TEST_F(TCP, ANumberThatTheProgramChoosesStaysItsOwn) {
  const int number = ::dup(0);
  ::close(number);
  std::atomic<int> opened{0};
  std::thread device([&] {
    for (; opened < 20'000; ++opened) {
      raw::close(static_cast<int>(raw::open_socket(AF_INET, SOCK_STREAM, 0)));
    }
  });
  int lost = 0;
  while (opened < 20'000) {
    {
      const NumberGate gate;
      ::dup2(0, number);
    }
    std::this_thread::yield();
    if (::close(number) != 0) ++lost;
  }
  device.join();
  EXPECT_EQ(lost, 0);
}

void expect_lost_peers_are_noticed(int fd) {
  EXPECT_NE(option(fd, SOL_SOCKET, SO_KEEPALIVE), 0);
  EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), kKeepaliveIdle.count());
  EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_KEEPINTVL), kKeepaliveInterval.count());
  EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_KEEPCNT), kKeepaliveCount);
}

/// What is set when the first octets have left.
void exchange(Pair& pair) {
  for (Stream* from : {pair.active.get(), pair.passive.get()}) {
    ASSERT_TRUE(send_all(*from, pattern(10)));
    Stream& to = from == pair.active.get() ? *pair.passive : *pair.active;
    ASSERT_EQ(receive_all(to, 10), pattern(10));
  }
}

TEST_F(TCP, BothEndsHaveTheConnectionOptions) {
  Pair pair = connect_pair();
  exchange(pair);
  for (int fd : {pair.active->fd(), pair.passive->fd()}) {
    EXPECT_NE(option(fd, IPPROTO_TCP, TCP_NODELAY), 0);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 0) << "would end a shut window";
  }
  expect_lost_peers_are_noticed(pair.passive->fd());
}

std::string congestion_control(int fd) {
  std::array<char, 16> name{};
  socklen_t length = name.size() - 1;
  EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &length), 0);
  return name.data();
}

TEST_F(TCP, WithinOneHostTheSimplestCongestionControlServes) {
  Pair pair = connect_pair();
  exchange(pair);
  for (int fd : {pair.active->fd(), pair.passive->fd()}) EXPECT_EQ(congestion_control(fd), "reno");
}

TEST_F(TCP, ItIsChosenOnceMoreWhenARouteHasNamedAnother) {
  Pair pair = connect_pair();
  auto stream = transport_.connect({}, pair.listener->local());
  ASSERT_TRUE(stream.ok());
  // As the handshake does where the route has one (congctl).
  std::ifstream allowed("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
  std::string other;
  while (allowed >> other && other == "reno") {
  }
  if (other.empty() || other == "reno") GTEST_SKIP() << "reno is all that this user may choose";
  ASSERT_EQ(::setsockopt((*stream)->fd(), IPPROTO_TCP, TCP_CONGESTION, other.data(),
                         static_cast<socklen_t>(other.size())),
            0)
      << other;
  ASSERT_TRUE(eventually([&] { return (*stream)->connected().ok(); }));
  ASSERT_TRUE(send_all(**stream, pattern(10)));
  EXPECT_EQ(congestion_control((*stream)->fd()), "reno");
}

TEST_F(TCP, AListenerOfTheLoopbackHasChosenForAllItAccepts) {
  Pair pair = connect_pair();
  EXPECT_EQ(congestion_control(pair.passive->fd()), "reno") << "nothing was sent yet";
  const auto any = transport_.listen(v4("0.0.0.0", 0), {});
  ASSERT_TRUE(any.ok());
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(congestion_control((*any)->fd()), congestion_control(fd)) << "others come there too";
  ::close(fd);
}

TEST_F(TCP, BetweenHostsTheCongestionControlIsTheSystems) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_GE(fd, 0);
  const std::string before = congestion_control(fd);
  ::close(fd);
  Pair pair = connect_pair();
  const int passive = pair.passive->fd();
  ASSERT_EQ(::setsockopt(passive, IPPROTO_TCP, TCP_CONGESTION, before.data(),
                         static_cast<socklen_t>(before.size())),
            0);
  // As if its peer were another host, and then this one.
  TCPStream remote(Socket(::dup(passive)), TCPStream::Origin::Accepted, v4("192.0.2.1", 1),
                   v4("192.0.2.2", 1));
  ASSERT_TRUE(send_all(remote, pattern(10)));
  EXPECT_EQ(congestion_control(remote.fd()), before);
  TCPStream here(Socket(::dup(passive)), TCPStream::Origin::Accepted, v4("192.0.2.1", 1),
                 v4("192.0.2.1", 2));
  ASSERT_TRUE(send_all(here, pattern(10)));
  EXPECT_EQ(congestion_control(here.fd()), "reno");
}

TEST(OneHost, IsLoopbackOrOneAddress) {
  EXPECT_TRUE(within_one_host({}, v4("127.0.0.1", 1)));
  EXPECT_TRUE(within_one_host(v4("127.0.0.5", 0), v4("127.0.0.1", 1)));
  EXPECT_TRUE(within_one_host({}, v6("::1", 1)));
  EXPECT_TRUE(within_one_host(v4("192.0.2.1", 0), v4("192.0.2.1", 7)));
  EXPECT_FALSE(within_one_host({}, v4("192.0.2.1", 7))) << "it may be, and nobody has looked";
  EXPECT_FALSE(within_one_host(v4("192.0.2.1", 0), v4("192.0.2.2", 7)));
}

// A stream that connects here as one to another host does: nothing of the tests may leave this one.
std::unique_ptr<TCPStream> connect_as_to_another_host(const Address& remote) {
  const auto fd = static_cast<int>(raw::open_socket(AF_INET, SOCK_STREAM, 0));
  notice_lost_peers(fd);
  bound_connecting(fd);
  raw::connect(fd, remote.sockaddr_ptr(), remote.length());
  return std::make_unique<TCPStream>(Socket(fd), TCPStream::Origin::Connecting, Address(), remote);
}

TEST_F(TCP, ConnectingToAnotherHostIsBoundedByTheUserTimeout) {
  Pair pair = connect_pair();
  const auto stream = connect_as_to_another_host(pair.listener->local());
  EXPECT_FALSE(stream->connects_at_once());
  expect_lost_peers_are_noticed(stream->fd());
  EXPECT_EQ(option(stream->fd(), IPPROTO_TCP, TCP_USER_TIMEOUT),
            std::chrono::milliseconds(kConnectTimeout).count());
  ASSERT_TRUE(eventually([&] { return stream->connected().ok(); }));
  EXPECT_EQ(option(stream->fd(), IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
}

TEST_F(TCP, WithinAHostNoSignOfLifeIsAskedFor) {
  Pair pair = connect_pair();
  auto stream = transport_.connect({}, pair.listener->local());
  ASSERT_TRUE(stream.ok());
  EXPECT_TRUE((*stream)->connects_at_once());
  // It is there now, but where the kernel puts off what it does for the loopback.
  ASSERT_TRUE(eventually([&] { return (*stream)->connected().ok(); }));
  EXPECT_TRUE((*stream)->local().same_host(v4("127.0.0.1", 0)));
  EXPECT_NE((*stream)->local().port(), 0);
  EXPECT_EQ(option((*stream)->fd(), SOL_SOCKET, SO_KEEPALIVE), 0) << "its kernel tells of its end";
}

// As where an address of this host leads to another one.
TEST_F(TCP, ShortPacketsAreNotWithinAHost) {
  Pair pair = connect_pair();
  const Address target = pair.listener->local();
  const auto fd = static_cast<int>(raw::open_socket(AF_INET, SOCK_STREAM, 0));
  raw::set_option(fd, IPPROTO_TCP, TCP_MAXSEG, 1448);
  raw::connect(fd, target.sockaddr_ptr(), target.length());
  TCPStream stream(Socket(fd), TCPStream::Origin::ConnectingWithinHost, Address(), target);
  ASSERT_TRUE(eventually([&] { return stream.connected().ok(); }));
  expect_lost_peers_are_noticed(stream.fd());
}

TEST_F(TCP, ThisHostIsSaidByNoAddress) {
  Pair pair = connect_pair();
  auto stream = transport_.connect({}, v4("0.0.0.0", pair.listener->local().port()));
  ASSERT_TRUE(stream.ok());
  ASSERT_TRUE(eventually([&] { return (*stream)->connected().ok(); }));
  EXPECT_TRUE((*stream)->peer().same_host(v4("127.0.0.1", 0)));
}

// The peer may have come and gone before anybody looked.
TEST_F(TCP, ConnectedIsWhatWasEstablishedHoweverItEnded) {
  Pair pair = connect_pair();
  const auto wait_for = [](Stream& stream, short events) {
    pollfd one = {stream.fd(), events, 0};
    return ::poll(&one, 1, 10'000) == 1;
  };
  auto closed = transport_.connect({}, pair.listener->local());
  accept_one(*pair.listener)->close_gracefully();
  ASSERT_TRUE(wait_for(**closed, POLLRDHUP));
  EXPECT_TRUE((*closed)->connected().ok());
  auto reset = transport_.connect({}, pair.listener->local());
  accept_one(*pair.listener)->reset();
  ASSERT_TRUE(wait_for(**reset, 0));  // POLLERR and POLLHUP
  const auto connected = (*reset)->connected();
  EXPECT_EQ(connected ? 0 : connected.error().code, ECONNRESET);
}

TEST_F(TCP, ReuseAddressOnlyWhereItIsNeeded) {
  Pair pair = connect_pair();
  EXPECT_NE(option(pair.listener->fd(), SOL_SOCKET, SO_REUSEADDR), 0);
  EXPECT_EQ(option(pair.active->fd(), SOL_SOCKET, SO_REUSEADDR), 0);
  const std::uint16_t port = pair.active->local().port();
  pair.active.reset();
  pair.passive.reset();
  auto again = transport_.connect(v4("127.0.0.1", port), pair.listener->local());
  if (again) {  // the port may still be in TIME_WAIT: then EADDRNOTAVAIL or EADDRINUSE is right
    EXPECT_NE(option((*again)->fd(), SOL_SOCKET, SO_REUSEADDR), 0);
  }
  auto address_only = transport_.connect(v4("127.0.0.8", 0), pair.listener->local());
  ASSERT_TRUE(address_only.ok());
  EXPECT_EQ(option((*address_only)->fd(), SOL_SOCKET, SO_REUSEADDR), 0);
}

TEST_F(TCP, PlainSocketHoldsThePort) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const Address any = v4("127.0.0.1", 0);
  ASSERT_EQ(::bind(fd, any.sockaddr_ptr(), any.length()), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  sockaddr_storage name = {};
  socklen_t length = sizeof name;
  ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length), 0);
  const Address at(reinterpret_cast<const sockaddr*>(&name));
  EXPECT_EQ(transport_.listen(at, {}).error().code, EADDRINUSE);
  ::close(fd);
  EXPECT_TRUE(transport_.listen(at, {}).ok());
}

TEST_F(TCP, AddressOfAnotherHostIsNotAvailable) {
  EXPECT_EQ(transport_.listen(v4("192.0.2.1", 0), {}).error().code, EADDRNOTAVAIL);
  Pair pair = connect_pair();
  EXPECT_EQ(connect_errno(transport_, v4("192.0.2.1", 0), pair.listener->local()), EADDRNOTAVAIL);
}

TEST_F(TCP, TheSourceIsWhatWasAskedForThoughTheKernelWouldChooseIt) {
  const auto expect_source = [&](const Address& from, const Address& to) {
    auto listener = transport_.listen(to, {});
    ASSERT_TRUE(listener.ok());
    auto active = transport_.connect(from, (*listener)->local());
    ASSERT_TRUE(active.ok());
    const auto passive = accept_one(**listener);
    ASSERT_NE(passive, nullptr);
    EXPECT_TRUE(passive->peer().same_host(from)) << from.text().data() << to.text().data();
    EXPECT_TRUE((*active)->local().same_host(from)) << from.text().data() << to.text().data();
  };
  for (const char* to : {"127.0.0.1", "127.0.0.5"}) {
    for (const char* from : {"127.0.0.1", "127.0.0.5"}) expect_source(v4(from, 0), v4(to, 0));
  }
  expect_source(v6("::1", 0), v6("::1", 0));
  expect_source(v6("::ffff:127.0.0.1", 0), v6("::ffff:127.0.0.1", 0));
  expect_source(v6("::ffff:127.0.0.5", 0), v6("::ffff:127.0.0.5", 0));
}

TEST_F(TCP, ConnectionToItselfIsRefused) {
  // With source and destination alike and nobody listening, TCP's simultaneous open succeeds.
  auto probe = transport_.listen(v4("127.0.0.1", 0), {});
  const Address self = (*probe)->local();
  probe->reset();
  EXPECT_EQ(connect_errno(transport_, self, self), ECONNREFUSED);
}

TEST_F(TCP, MappedPeerIsTheIPv4Host) {
  auto listener = transport_.listen(v6("::", 0), {});
  auto active = transport_.connect({}, v4("127.0.0.1", (*listener)->local().port()));
  ASSERT_TRUE(active.ok());
  auto passive = accept_one(**listener);
  ASSERT_NE(passive, nullptr);
  EXPECT_EQ(passive->peer().family(), AF_INET6);
  EXPECT_TRUE(passive->peer().same_host(v4("127.0.0.1", 0)));
}

TEST_F(TCP, OutOfDescriptorsConcernsThatAcceptOnly) {
  auto listener = transport_.listen(v4("127.0.0.1", 0), {});
  auto active = transport_.connect({}, (*listener)->local());
  ASSERT_TRUE(active.ok());
  ASSERT_TRUE(eventually([&] { return (*active)->connected().ok(); }));
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {3, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto accepted = (*listener)->accept();
  const auto connected = transport_.connect({}, (*listener)->local());
  const auto listening = transport_.listen(v4("127.0.0.1", 0), {});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(accepted.error().code, EMFILE);
  EXPECT_EQ(connected.error().code, EMFILE);
  EXPECT_EQ(listening.error().code, EMFILE);
  EXPECT_NE(accept_one(**listener), nullptr);
}

TEST_F(TCP, ConnectionResetBeforeAcceptDoesNotStopListening) {
  auto listener = transport_.listen(v4("127.0.0.1", 0), {});
  auto gone = transport_.connect({}, (*listener)->local());
  ASSERT_TRUE(eventually([&] { return (*gone)->connected().ok(); }));
  (*gone)->reset();
  auto active = transport_.connect({}, (*listener)->local());
  ASSERT_TRUE(eventually([&] { return (*active)->connected().ok(); }));
  // Linux hands out the dead one too; either way the second comes.
  const std::uint16_t port = (*active)->local().port();
  EXPECT_TRUE(eventually([&] {
    auto accepted = (*listener)->accept();
    return accepted.ok() && (*accepted)->peer().port() == port;
  }));
}

TEST_F(TCP, SendMovesWhatLiesBeforeAHole) {
  Pair pair = connect_pair();
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t mapped = 64 * page;
  void* memory =
      ::mmap(nullptr, mapped + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* data = static_cast<std::uint8_t*>(memory);
  ASSERT_EQ(::munmap(data + mapped, page), 0);
  const Bytes want = pattern(mapped);
  std::memcpy(data, want.data(), mapped);

  std::size_t sent = 0;
  Bytes got;
  IOResult result;
  ASSERT_TRUE(eventually([&] {
    const iovec rest = piece(data + sent, mapped + page - sent);
    result = pair.active->send({&rest, 1});
    sent += result.octets;
    const Bytes more = receive_all(*pair.passive, result.octets);
    got.insert(got.end(), more.begin(), more.end());
    return result.kind != Kind::Moved && result.kind != Kind::WouldBlock;
  }));
  EXPECT_EQ(result.kind, Kind::BadMemory);
  EXPECT_EQ(result.error, EFAULT);
  EXPECT_LE(sent, mapped);
  EXPECT_EQ(got, Bytes(want.begin(), want.begin() + static_cast<long>(sent)));
  // The connection outlives it.
  ASSERT_TRUE(send_all(*pair.active, pattern(10)));
  EXPECT_EQ(receive_all(*pair.passive, 10), pattern(10));
  ::munmap(data, mapped);
}

TEST_F(TCP, ReceiveIntoReadOnlyMemoryIsBadMemory) {
  Pair pair = connect_pair();
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* memory = ::mmap(nullptr, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_TRUE(send_all(*pair.active, pattern(10)));
  const iovec into = piece(memory, page);
  IOResult result;
  eventually([&] { return (result = pair.passive->receive({&into, 1})).kind != Kind::WouldBlock; });
  EXPECT_EQ(result.kind, Kind::BadMemory);
  EXPECT_EQ(receive_all(*pair.passive, 10), pattern(10)) << "nothing was lost by it";
  ::munmap(memory, page);
}

TEST_F(TCP, EmssIsTheKernels) {
  Pair pair = connect_pair();
  tcp_info info = {};
  socklen_t length = sizeof info;
  ASSERT_EQ(::getsockopt(pair.active->fd(), IPPROTO_TCP, TCP_INFO, &info, &length), 0);
  EXPECT_EQ(pair.active->emss(), info.tcpi_snd_mss);
  EXPECT_GT(pair.active->emss(), 1000u);
  pair.active->reset();
  EXPECT_EQ(pair.active->fd(), -1);
  EXPECT_EQ(pair.active->emss(), 128u);
}

TEST_F(TCP, ResetOfAConnectingStreamFailsIt) {
  Pair pair = connect_pair();
  auto stream = transport_.connect({}, pair.listener->local());
  ASSERT_TRUE(stream.ok());
  (*stream)->reset();
  EXPECT_EQ((*stream)->connected().error().code, ECONNABORTED);
}

// The child's copy of the descriptor keeps the socket open, but not the connection.
TEST_F(TCP, AResetIsHeardWhileAForkedChildHoldsTheSocket) {
  Pair pair = connect_pair();
  ASSERT_TRUE(send_all(*pair.active, pattern(10)));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (;;) ::pause();
  }
  pair.active->reset();
  Bytes into(100);
  EXPECT_EQ(receive_some(*pair.passive, into).octets, 10u) << "what was sent before still comes";
  const IOResult end = receive_some(*pair.passive, into);
  EXPECT_EQ(end.kind, Kind::Lost);
  EXPECT_EQ(end.error, ECONNRESET);
  ::kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
}

TEST_F(TCP, ManySmallSendsArriveInOrder) {
  Pair pair = connect_pair();
  constexpr std::size_t kCount = 20'000;
  std::thread sender([&] {
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_TRUE(send_all(*pair.active, Bytes{static_cast<std::uint8_t>(i), 1, 2}));
    }
  });
  const Bytes got = receive_all(*pair.passive, 3 * kCount);
  sender.join();
  ASSERT_EQ(got.size(), 3 * kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(got[3 * i], static_cast<std::uint8_t>(i));
  }
}

TEST_F(TCP, EveryDescriptorIsGivenBack) {
  const int before = ::dup(0);
  ::close(before);
  for (int i = 0; i < 50; ++i) {
    Pair pair = connect_pair();
    if (i % 2 == 0) {
      pair.active->reset();
    }
    (void)transport_.listen(pair.listener->local(), {});  // fails after making its socket
  }
  const int after = ::dup(0);
  ::close(after);
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace weft::transport

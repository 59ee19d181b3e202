// The rules of transport.h that every transport keeps, run against each of them.
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "transport/fault/fault_transport.h"
#include "transport/loopback/loopback_network.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/test_streams.h"

namespace weft::transport {
namespace {

using namespace testing;
using Kind = IOResult::Kind;

/// Two pages, of which the second is not mapped.
class HalfMapped {
 public:
  HalfMapped() : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
    base_ = static_cast<std::uint8_t*>(
        ::mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ::munmap(base_ + page_, page_);
  }
  ~HalfMapped() { ::munmap(base_, page_); }
  HalfMapped(const HalfMapped&) = delete;
  HalfMapped& operator=(const HalfMapped&) = delete;

  std::uint8_t* hole() const { return base_ + page_; }

 private:
  std::size_t page_;
  std::uint8_t* base_;
};

class Contract : public ::testing::TestWithParam<const char*> {
 protected:
  Contract() {
    const std::string name = GetParam();
    LoopbackOptions options;
    options.guard_memory = true;
    options.readiness = name != "simulation";
    loopback_ = std::make_unique<LoopbackNetwork>(options);
    FaultConfig config;
    config.seed = 7;
    config.split_send = config.split_receive = 400'000;
    config.delay_connect = config.delay_send = config.delay_receive = 200'000;
    config.merge = 100'000;
    fault_ = std::make_unique<FaultTransport>(*loopback_, config);
    if (name == "tcp") {
      transport_ = &tcp_;
    } else if (name == "fault") {
      transport_ = fault_.get();
    } else {
      transport_ = loopback_.get();
    }
  }

  Pair connect_pair() { return make_pair_at(*transport_, v4("127.0.0.1", 0)); }
  bool has_fds() const { return std::string(GetParam()) != "simulation"; }

  TCPTransport tcp_;
  std::unique_ptr<LoopbackNetwork> loopback_;
  std::unique_ptr<FaultTransport> fault_;
  Transport* transport_ = nullptr;
};

/// For transports with descriptors that know all: a simulation has none, delays are not in them.
class Readiness : public Contract {};

bool readable(int fd, int timeout_ms) {
  pollfd waits = {fd, POLLIN, 0};
  return ::poll(&waits, 1, timeout_ms) == 1;
}

TEST_P(Contract, AddressesOfBothEndsAgree) {
  Pair pair = connect_pair();
  EXPECT_EQ(pair.active->peer().port(), pair.listener->local().port());
  EXPECT_EQ(pair.passive->local().port(), pair.listener->local().port());
  EXPECT_EQ(pair.active->local().port(), pair.passive->peer().port());
  EXPECT_NE(pair.active->local().port(), 0);
  EXPECT_TRUE(pair.active->local().same_host(v4("127.0.0.1", 0)));
  EXPECT_TRUE(pair.passive->peer().same_host(v4("127.0.0.1", 0)));
}

TEST_P(Contract, IPv6) {
  Pair pair = make_pair_at(*transport_, v6("::1", 0));
  EXPECT_EQ(pair.passive->peer().family(), AF_INET6);
  ASSERT_TRUE(send_all(*pair.active, pattern(100)));
  EXPECT_EQ(receive_all(*pair.passive, 100), pattern(100));
}

TEST_P(Contract, DualListenerTakesIPv4AndV6OnlyDoesNot) {
  auto dual = transport_->listen(v6("::", 0), {});
  ASSERT_TRUE(dual.ok());
  EXPECT_EQ(connect_errno(*transport_, {}, v4("127.0.0.1", (*dual)->local().port())), 0);
  ListenOptions options;
  options.v6_only = true;
  auto only = transport_->listen(v6("::", 0), options);
  ASSERT_TRUE(only.ok());
  EXPECT_EQ(connect_errno(*transport_, {}, v4("127.0.0.1", (*only)->local().port())), ECONNREFUSED);
  EXPECT_EQ(connect_errno(*transport_, {}, v6("::1", (*only)->local().port())), 0);
}

TEST_P(Contract, Refused) {
  auto listener = transport_->listen(v4("127.0.0.1", 0), {});
  ASSERT_TRUE(listener.ok());
  const Address was = (*listener)->local();
  listener->reset();
  EXPECT_EQ(connect_errno(*transport_, {}, was), ECONNREFUSED);
}

TEST_P(Contract, FailedConnectStaysFailed) {
  auto listener = transport_->listen(v4("127.0.0.1", 0), {});
  const Address was = (*listener)->local();
  listener->reset();
  auto stream = transport_->connect({}, was);
  if (!stream) {
    EXPECT_EQ(stream.error().code, ECONNREFUSED);
    return;
  }
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(eventually([&] {
      const auto result = (*stream)->connected();
      return !result.ok() && result.error().code == ECONNREFUSED;
    }));
  }
  EXPECT_EQ(send_until_refused(**stream).error, ECONNREFUSED);
}

TEST_P(Contract, FamiliesMustAgree) {
  EXPECT_EQ(connect_errno(*transport_, {}, {}), EAFNOSUPPORT);
  EXPECT_EQ(connect_errno(*transport_, v6("::1", 0), v4("127.0.0.1", 9)), EAFNOSUPPORT);
  EXPECT_EQ(transport_->listen({}, {}).error().code, EAFNOSUPPORT);
}

TEST_P(Contract, PortTakenThenFreeAtOnce) {
  Pair pair = connect_pair();
  const Address at = pair.listener->local();
  auto second = transport_->listen(at, {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, EADDRINUSE);
  EXPECT_EQ(transport_->listen(v4("0.0.0.0", at.port()), {}).error().code, EADDRINUSE);
  // With a connection open and then with one just closed by the listening side.
  pair.listener.reset();
  EXPECT_TRUE(transport_->listen(at, {}).ok());
  pair.passive.reset();
  Bytes some(1);
  receive_some(*pair.active, some);
  pair.active.reset();
  EXPECT_TRUE(transport_->listen(at, {}).ok());
}

TEST_P(Contract, SourceAddressAndPort) {
  auto listener = transport_->listen(v4("127.0.0.1", 0), {});
  ASSERT_TRUE(listener.ok());
  auto first = transport_->connect(v4("127.0.0.5", 0), (*listener)->local());
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(eventually([&] { return (*first)->connected().ok(); }));
  EXPECT_TRUE((*first)->local().same_host(v4("127.0.0.5", 0)));
  const std::uint16_t port = (*first)->local().port();
  EXPECT_NE(port, 0);
  auto passive = accept_one(**listener);
  EXPECT_TRUE(passive->peer().same_host(v4("127.0.0.5", 0)));
  EXPECT_EQ(passive->peer().port(), port);

  auto second = transport_->connect(v4("127.0.0.6", port), (*listener)->local());
  ASSERT_TRUE(second.ok());
  ASSERT_TRUE(eventually([&] { return (*second)->connected().ok(); }));
  EXPECT_EQ((*second)->local().port(), port);
}

TEST_P(Contract, SourcePortOfAListenerIsTaken) {
  auto listener = transport_->listen(v4("127.0.0.1", 0), {});
  auto target = transport_->listen(v4("127.0.0.1", 0), {});
  EXPECT_EQ(connect_errno(*transport_, (*listener)->local(), (*target)->local()), EADDRINUSE);
}

TEST_P(Contract, AcceptSaysEagainWhenNobodyWaits) {
  auto listener = transport_->listen(v4("127.0.0.1", 0), {});
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ((*listener)->accept().error().code, EAGAIN);
  if (has_fds()) {
    EXPECT_FALSE(readable((*listener)->fd(), 0));
    auto active = transport_->connect({}, (*listener)->local());
    EXPECT_TRUE(readable((*listener)->fd(), 5000));
    EXPECT_NE(accept_one(**listener), nullptr);
    EXPECT_FALSE(readable((*listener)->fd(), 0));
  }
}

TEST_P(Contract, ListenerGoneResetsWhoWaits) {
  auto listener = transport_->listen(v4("127.0.0.1", 0), {});
  auto active = transport_->connect({}, (*listener)->local());
  ASSERT_TRUE(active.ok());
  ASSERT_TRUE(eventually([&] { return (*active)->connected().ok(); }));
  listener->reset();
  Bytes some(1);
  const IOResult result = receive_some(**active, some);
  EXPECT_EQ(result.kind, Kind::Lost);
  EXPECT_EQ(result.error, ECONNRESET);
  EXPECT_TRUE((*active)->connected().ok()) << "once established, it was established";
}

TEST_P(Contract, MovesManyOctetsBothWays) {
  Pair pair = connect_pair();
  const Bytes there = pattern(300'000, 1), back = pattern(300'000, 2);
  Bytes got_there(there.size()), got_back(back.size());
  std::size_t sent[2] = {}, received[2] = {};
  const auto step = [](Stream& stream, const Bytes& out, std::size_t& out_done, Bytes& in,
                       std::size_t& in_done) {
    const iovec from = piece(const_cast<std::uint8_t*>(out.data()) + out_done,
                             std::min<std::size_t>(out.size() - out_done, 5000));
    out_done += stream.send({&from, 1}).octets;
    const iovec into = piece(in.data() + in_done, std::min<std::size_t>(in.size() - in_done, 3000));
    in_done += stream.receive({&into, 1}).octets;
  };
  ASSERT_TRUE(eventually([&] {
    step(*pair.active, there, sent[0], got_back, received[0]);
    step(*pair.passive, back, sent[1], got_there, received[1]);
    return received[0] == back.size() && received[1] == there.size();
  }));
  EXPECT_EQ(got_there, there);
  EXPECT_EQ(got_back, back);
}

TEST_P(Contract, GathersAndScattersWithEmptyPieces) {
  Pair pair = connect_pair();
  Bytes out = pattern(1000);
  const iovec gather[] = {piece(out.data(), 0), piece(out.data(), 1), piece(out.data() + 1, 600),
                          piece(nullptr, 0), piece(out.data() + 601, 399)};
  std::size_t done = 0;
  IOResult result;
  ASSERT_TRUE(eventually([&] { return (result = pair.active->send(gather)).octets > 0; }));
  done = result.octets;
  ASSERT_TRUE(send_all(*pair.active, Bytes(out.begin() + static_cast<long>(done), out.end())));
  Bytes in(1000);
  std::size_t got = 0;
  ASSERT_TRUE(eventually([&] {
    const std::size_t middle = got + (1000 - got) / 2;
    const iovec scatter[] = {piece(nullptr, 0), piece(in.data() + got, middle - got),
                             piece(in.data() + middle, 1000 - middle)};
    got += pair.passive->receive(scatter).octets;
    return got == 1000;
  }));
  EXPECT_EQ(in, out);
}

TEST_P(Contract, MorePiecesThanOneSystemCallTakes) {
  Pair pair = connect_pair();
  Bytes out = pattern(3000), in(3000);
  std::size_t sent = 0, got = 0;
  const auto ones = [](Bytes& bytes, std::size_t from) {
    std::vector<iovec> pieces;
    for (std::size_t i = from; i < bytes.size(); ++i) {
      pieces.push_back(piece(&bytes[i], 1));
    }
    return pieces;
  };
  ASSERT_TRUE(eventually([&] {
    sent += pair.active->send(ones(out, sent)).octets;
    got += pair.passive->receive(ones(in, got)).octets;
    return got == 3000;
  }));
  EXPECT_EQ(in, out);
}

TEST_P(Contract, NothingToMoveIsWouldBlock) {
  Pair pair = connect_pair();
  ASSERT_TRUE(send_all(*pair.active, pattern(10)));
  const iovec empty = piece(nullptr, 0);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(pair.active->send({}).kind, Kind::WouldBlock);
    EXPECT_EQ(pair.active->send({&empty, 1}).kind, Kind::WouldBlock);
    EXPECT_EQ(pair.passive->receive({}).kind, Kind::WouldBlock);
    EXPECT_EQ(pair.passive->receive({&empty, 1}).kind, Kind::WouldBlock);
  }
  EXPECT_EQ(receive_all(*pair.passive, 10), pattern(10));
}

TEST_P(Contract, FullStreamBlocksThenGoesOn) {
  Pair pair = connect_pair();
  const Bytes block = pattern(50'000);
  std::size_t sent = 0;
  int refused = 0;
  // Delays look like a full stream; 200 refusals in a row do not happen by chance.
  while (refused < 200) {
    const IOResult result = send_some(*pair.active, block);
    ASSERT_TRUE(result.kind == Kind::Moved || result.kind == Kind::WouldBlock);
    refused = result.kind == Kind::Moved ? 0 : refused + 1;
    sent += result.octets;
    ASSERT_LT(sent, 1u << 30);
  }
  EXPECT_EQ(receive_all(*pair.passive, sent).size(), sent);
  EXPECT_TRUE(send_all(*pair.active, pattern(10)));
  EXPECT_EQ(receive_all(*pair.passive, 10), pattern(10));
}

TEST_P(Contract, FinComesAfterTheOctetsAndTheOtherWayStaysOpen) {
  Pair pair = connect_pair();
  ASSERT_TRUE(send_all(*pair.active, pattern(5000)));
  pair.active->close_gracefully();
  pair.active->close_gracefully();
  const IOResult after = send_some(*pair.active, Bytes(1));
  EXPECT_EQ(after.kind, Kind::Lost);
  EXPECT_EQ(after.error, EPIPE);
  EXPECT_EQ(receive_all(*pair.passive, 6000), pattern(5000));
  Bytes some(10);
  EXPECT_EQ(receive_some(*pair.passive, some).kind, Kind::Closed);
  EXPECT_EQ(receive_some(*pair.passive, some).kind, Kind::Closed);
  ASSERT_TRUE(send_all(*pair.passive, pattern(700, 9)));
  EXPECT_EQ(receive_all(*pair.active, 700), pattern(700, 9));
  pair.passive->close_gracefully();
  EXPECT_EQ(receive_some(*pair.active, some).kind, Kind::Closed);
}

TEST_P(Contract, ResetEndsBothDirections) {
  Pair pair = connect_pair();
  pair.active->reset();
  Bytes some(10);
  EXPECT_EQ(pair.active->receive({}).error, ECONNABORTED);
  EXPECT_EQ(send_some(*pair.active, Bytes(1)).error, ECONNABORTED);
  IOResult result = receive_some(*pair.passive, some);
  EXPECT_EQ(result.kind, Kind::Lost);
  EXPECT_EQ(result.error, ECONNRESET);
  result = receive_some(*pair.passive, some);
  EXPECT_EQ(result.kind, Kind::Lost) << "lost stays lost";
  EXPECT_EQ(result.error, ECONNRESET);
  EXPECT_EQ(send_until_refused(*pair.passive).kind, Kind::Lost);
  pair.active->reset();
  pair.active->close_gracefully();
  EXPECT_GE(pair.active->emss(), 128u);
  EXPECT_NE(pair.active->local().port(), 0) << "addresses outlive the connection";
}

TEST_P(Contract, WhatCameBeforeAResetCanBeReceived) {
  Pair pair = connect_pair();
  ASSERT_TRUE(send_all(*pair.active, pattern(2000)));
  pair.active->reset();
  // Sending meets the reset first and takes the kernel's one report of it.
  EXPECT_EQ(send_until_refused(*pair.passive).kind, Kind::Lost);
  EXPECT_EQ(receive_all(*pair.passive, 3000), pattern(2000));
  Bytes some(10);
  const IOResult result = receive_some(*pair.passive, some);
  EXPECT_EQ(result.kind, Kind::Lost);
  EXPECT_NE(result.error, 0);
}

TEST_P(Contract, DestructionClosesGracefullyWhenAllWasRead) {
  Pair pair = connect_pair();
  ASSERT_TRUE(send_all(*pair.active, pattern(2000)));
  pair.active.reset();
  EXPECT_EQ(receive_all(*pair.passive, 3000), pattern(2000));
  Bytes some(10);
  EXPECT_EQ(receive_some(*pair.passive, some).kind, Kind::Closed);
  EXPECT_EQ(send_until_refused(*pair.passive).kind, Kind::Lost);
}

TEST_P(Contract, DestructionWithOctetsUnreadResets) {
  Pair pair = connect_pair();
  ASSERT_TRUE(send_all(*pair.active, pattern(10)));
  if (has_fds()) {
    ASSERT_TRUE(readable(pair.passive->fd(), 5000));
  }
  pair.passive.reset();
  Bytes some(10);
  EXPECT_EQ(receive_some(*pair.active, some).error, ECONNRESET);
}

TEST_P(Contract, UnmappedMemory) {
  Pair pair = connect_pair();
  const HalfMapped memory;
  const auto first_answer = [](auto call) {
    IOResult result;
    eventually([&] { return (result = call()).kind != Kind::WouldBlock; });
    return result;
  };
  Bytes good = pattern(100);
  const iovec hole = piece(memory.hole(), 100);
  EXPECT_EQ(first_answer([&] { return pair.active->send({&hole, 1}); }).kind, Kind::BadMemory);

  // A hole in the middle: what was moved, if anything, is what lay before it, and then BadMemory.
  const iovec holed[] = {piece(good), hole, piece(good)};
  std::size_t sent = 0;
  IOResult result;
  do {
    const iovec rest[] = {piece(good.data() + sent, 100 - sent), hole, piece(good)};
    result = first_answer([&] { return pair.active->send(sent == 0 ? holed : rest); });
    sent += result.octets;
    ASSERT_LE(sent, 100u);
  } while (result.kind == Kind::Moved);
  EXPECT_EQ(result.kind, Kind::BadMemory);
  EXPECT_EQ(result.octets, 0u);

  // The stream is well: the rest of the first piece and more arrive in order.
  ASSERT_TRUE(send_all(*pair.active, Bytes(good.begin() + static_cast<long>(sent), good.end())));
  EXPECT_EQ(first_answer([&] { return pair.passive->receive({&hole, 1}); }).kind, Kind::BadMemory);
  EXPECT_EQ(receive_all(*pair.passive, 100), good);
}

TEST_P(Readiness, FollowsOctetsAndFin) {
  Pair pair = connect_pair();
  EXPECT_FALSE(readable(pair.passive->fd(), 0));
  ASSERT_TRUE(send_all(*pair.active, pattern(10)));
  EXPECT_TRUE(readable(pair.passive->fd(), 5000));
  EXPECT_EQ(receive_all(*pair.passive, 5).size(), 5u);
  EXPECT_TRUE(readable(pair.passive->fd(), 0)) << "level triggered";
  EXPECT_EQ(receive_all(*pair.passive, 5).size(), 5u);
  EXPECT_FALSE(readable(pair.passive->fd(), 0));
  pair.active->close_gracefully();
  EXPECT_TRUE(readable(pair.passive->fd(), 5000));
}

TEST_P(Readiness, AfterAFullStreamAndAfterReset) {
  Pair pair = connect_pair();
  const auto sendable = [&](int timeout_ms) {
    pollfd waits = {pair.active->fd(), POLLIN | POLLOUT, 0};
    return ::poll(&waits, 1, timeout_ms) == 1 && send_some(*pair.active, Bytes(1)).octets == 1;
  };
  std::size_t sent = 0;
  ASSERT_TRUE(eventually([&] {
    const IOResult result = send_some(*pair.active, pattern(50'000));
    sent += result.octets;
    return result.kind == Kind::WouldBlock;
  }));
  EXPECT_EQ(receive_all(*pair.passive, sent).size(), sent);
  EXPECT_TRUE(eventually([&] { return sendable(1000); }));
  pair.passive->reset();
  EXPECT_TRUE(readable(pair.active->fd(), 5000));
}

TEST_P(Contract, EmssIsAtLeastTheMinimum) {
  Pair pair = connect_pair();
  EXPECT_GE(pair.active->emss(), 128u);
  EXPECT_GE(pair.passive->emss(), 128u);
}

TEST_P(Contract, ManyConnectionsOneAfterTheOther) {
  auto listener = transport_->listen(v4("127.0.0.1", 0), {});
  for (int i = 0; i < 200; ++i) {
    auto active = transport_->connect({}, (*listener)->local());
    ASSERT_TRUE(active.ok());
    ASSERT_TRUE(eventually([&] { return (*active)->connected().ok(); }));
    auto passive = accept_one(**listener);
    ASSERT_NE(passive, nullptr);
    ASSERT_TRUE(send_all(*passive, pattern(64, static_cast<std::uint8_t>(i))));
    ASSERT_EQ(receive_all(**active, 64), pattern(64, static_cast<std::uint8_t>(i)));
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Contract,
                         ::testing::Values("tcp", "loopback", "simulation", "fault"),
                         [](const auto& instance) { return std::string(instance.param); });

INSTANTIATE_TEST_SUITE_P(Transports, Readiness, ::testing::Values("tcp", "loopback"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace weft::transport

// Streams that the poller cannot watch. The kernel's own reasons (the user's limit of watches, its
// memory) are the whole machine's, so here it is a descriptor of a kind that epoll refuses.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include "engine/testing/raw_peer.h"
#include "engine/testing/resources.h"
#include "engine/testing/side.h"
#include "engine/testing/stream.h"

namespace weft::engine {
namespace {

using device::ConnectionEventKind;
using testing::PairTest;
using testing::QPHandle;
using testing::RawPeer;
using testing::Side;

/// What the streams of one transport show as their descriptor.
struct Disguise {
  Disguise() : fd(::memfd_create("not for epoll", MFD_CLOEXEC)) {}
  ~Disguise() { ::close(fd); }
  const int fd;
  std::atomic<bool> worn{false};
};

/// A TCP stream whose descriptor may be in disguise.
class DisguisedStream final : public testing::PassingStream {
 public:
  DisguisedStream(std::unique_ptr<transport::Stream> inner, const Disguise& disguise)
      : PassingStream(std::move(inner)), disguise_(disguise) {}
  int fd() const override { return disguise_.worn.load() ? disguise_.fd : PassingStream::fd(); }

 private:
  const Disguise& disguise_;
};

struct DisguisedTransport {
  Disguise disguise;
  testing::WrappingTransport transport{
      [this](auto inner) { return std::make_unique<DisguisedStream>(std::move(inner), disguise); }};
};

class PollerRefusalTest : public PairTest {
 protected:
  void SetUp() override {
    const Settings settings = make_settings();
    server = std::make_unique<Side>(settings, &server_transport.transport);
    client = std::make_unique<Side>(settings, &client_transport.transport);
    server->peer_progress = [this] { client->progress(); };
    client->peer_progress = [this] { server->progress(); };
    listen();
    client_qp = client->make_qp(1);
    server_qp = server->make_qp(2);
    descriptors_before = testing::count_descriptors();
  }
  void TearDown() override {
    client.reset();  // before their transports
    server.reset();
  }
  void expect_end(Side& side, ConnectionEventKind kind, int error) {
    const auto event = side.wait_event();
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(event->event.kind, kind) << event->event.text;
    EXPECT_EQ(event->event.error, error) << event->event.text;
    if (error == EPERM) {
      EXPECT_NE(std::string(event->event.text).find("poller"), std::string::npos);
    }
  }
  void expect_no_descriptor_left() {
    EXPECT_TRUE(server->wait_until([&] {
      server->progress();
      return testing::count_descriptors() == descriptors_before;
    }));
  }

  DisguisedTransport server_transport, client_transport;
  QPHandle client_qp, server_qp;
  int descriptors_before = 0;
};

TEST_P(PollerRefusalTest, ConnectingFailsWithTheReason) {
  client_transport.disguise.worn = true;
  ASSERT_TRUE(client->rnic
                  .connect(nullptr, reinterpret_cast<const sockaddr*>(&server_address),
                           {.qp = client_qp.face.number, .private_data = {}}, 11)
                  .ok());
  expect_end(*client, ConnectionEventKind::Failed, EPERM);
  expect_no_descriptor_left();
  client_transport.disguise.worn = false;
  establish(client_qp, server_qp);  // the QP was not used up
}

TEST_P(PollerRefusalTest, AnAcceptedConnectionIsReset) {
  server_transport.disguise.worn = true;
  {
    RawPeer peer;
    ASSERT_TRUE(peer.connect(server_address));
    std::uint8_t octet;
    EXPECT_TRUE(server->wait_until([&] {
      server->progress();
      return peer.receive(&octet, 1) < 0 && errno == ECONNRESET;
    }));
  }
  expect_no_descriptor_left();
  server_transport.disguise.worn = false;
  establish(client_qp, server_qp);  // the listener goes on
}

TEST_P(PollerRefusalTest, AnEstablishedConnectionIsLostWithTheReason) {
  ASSERT_NO_FATAL_FAILURE(establish(client_qp, server_qp));
  server_transport.disguise.worn = true;
  // Held back for want of a receive, the stream is to be watched for something else.
  client->post_send(client_qp, {.wr_id = 1});
  expect_end(*server, ConnectionEventKind::Disconnected, EPERM);
  expect_end(*client, ConnectionEventKind::Disconnected, ECONNRESET);
  expect_no_descriptor_left();
}

INSTANTIATE_TEST_SUITE_P(Placements, PollerRefusalTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine

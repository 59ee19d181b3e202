// One end of a connection, and two of them, as the engine's tests drive them.
#include "engine/testing/side.h"

#include <arpa/inet.h>

namespace weft::engine::testing {

sockaddr_in ipv4(const char* address, std::uint16_t port) {
  sockaddr_in in = {};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  inet_pton(AF_INET, address, &in.sin_addr);
  return in;
}

Side::Side(const Settings& settings, transport::Transport* transport)
    : rnic(settings, *this, transport != nullptr ? *transport : tcp_) {
  EXPECT_TRUE(rnic.start().ok());
  pd = *rnic.create_pd();
  cq = *rnic.create_cq(256, 7);
  async_events.reserve(64);  // for tests in which the engine has no memory
}

Side::~Side() = default;

void Side::handle_completion_event(std::uint64_t) {
  const std::scoped_lock hold(mutex_);
  ++cq_events;
  if (on_completion_event) on_completion_event();
}

void Side::handle_async_event(const device::AsyncEvent& event) {
  const std::scoped_lock hold(mutex_);
  async_events.push_back(event);
}

void Side::handle_connection_event(const device::ConnectionEvent& event) {
  const std::scoped_lock hold(mutex_);
  connection_events.push_back({event, {event.private_data.begin(), event.private_data.end()}});
  if (on_connection_event) on_connection_event();
}

QPHandle Side::make_qp(std::uint64_t cookie, device::SRQNumber srq, std::uint32_t depth) {
  auto face = rnic.create_qp({.pd = pd,
                              .send_cq = cq.number,
                              .receive_cq = cq.number,
                              .srq = srq,
                              .send_depth = depth,
                              .receive_depth = depth,
                              .send_sges = 4,
                              .receive_sges = 4,
                              .inline_octets = 64,
                              .cookie = cookie});
  EXPECT_TRUE(face.ok());
  return {*face};
}

std::uint32_t Side::register_octets(void* address, std::size_t octets, std::uint32_t access,
                                    device::QPNumber only) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return *rnic.register_region(
      {.pd = pd, .access = access, .address = at, .octets = octets, .base_to = at, .qp = only});
}

void Side::post_send(QPHandle& qp, const Send& s, const device::Posted& posted) {
  ASSERT_FALSE(qp.face.send.full());
  auto* entry = static_cast<device::SendEntry*>(qp.face.send.entry(qp.sends));
  *entry = {.wr_id = s.wr_id,
            .remote_to = s.remote_to,
            .remote_stag = s.remote_stag,
            .invalidate_stag = s.invalidate_stag,
            .opcode = s.opcode,
            .flags = s.flags,
            .sge_count = static_cast<std::uint16_t>(s.octets != 0 ? 1 : 0),
            .inline_octets = 0};
  entry->sges()[0] = {reinterpret_cast<std::uintptr_t>(s.address), s.octets, s.stag};
  if (s.opcode == device::SendOpcode::BindWindow) {
    *entry->binding() = s.binding;
  } else if (s.opcode >= device::SendOpcode::FetchAdd) {
    *entry->atomic() = {s.operand, s.compare};
  }
  qp.face.send.publish(++qp.sends);
  rnic.ring_send(qp.face.number, posted);
}

void Side::post_receive(QPHandle& qp, std::uint64_t wr_id, void* address, std::uint32_t octets,
                        std::uint32_t stag) {
  ASSERT_FALSE(qp.face.receive.full());
  auto* entry = static_cast<device::ReceiveEntry*>(qp.face.receive.entry(qp.receives));
  *entry = {.wr_id = wr_id, .sge_count = octets != 0 ? 1u : 0u, .reserved = 0};
  entry->sges()[0] = {reinterpret_cast<std::uintptr_t>(address), octets, stag};
  qp.face.receive.publish(++qp.receives);
  rnic.ring_receive(qp.face.number);
}

std::optional<device::CompletionEntry> Side::wait_completion() {
  std::optional<device::CompletionEntry> found;
  wait_until([&] {
    if (cq.completions.empty()) rnic.poll(cq.number);
    if (cq.completions.empty()) return false;
    const std::uint32_t index = cq.completions.consumed_own();
    found = *static_cast<device::CompletionEntry*>(cq.completions.entry(index));
    cq.completions.release(index + 1);
    return true;
  });
  return found;
}

std::optional<SeenEvent> Side::take_event() {
  const std::scoped_lock hold(mutex_);
  if (connection_events.empty()) return std::nullopt;
  SeenEvent event = connection_events.front();
  connection_events.pop_front();
  return event;
}

std::optional<SeenEvent> Side::wait_event() {
  std::optional<SeenEvent> found;
  wait_until([&] {
    if (rnic.progress_fd() >= 0) rnic.progress();
    found = take_event();
    return found.has_value();
  });
  return found;
}

void Side::progress() {
  if (rnic.progress_fd() >= 0) rnic.progress();
}

int Side::count_cq_events() {
  const std::scoped_lock hold(mutex_);
  return cq_events;
}

std::vector<device::AsyncEvent> Side::seen_async() {
  const std::scoped_lock hold(mutex_);
  return async_events;
}

PairTest::PairTest() = default;
PairTest::~PairTest() = default;

Settings PairTest::settings_for(Placement placement) {
  Settings settings;
  settings.engine = placement;
  return settings;
}

void PairTest::start() {
  const Settings settings = make_settings();
  server = std::make_unique<Side>(settings);
  client = std::make_unique<Side>(settings);
  server->peer_progress = [this] { client->progress(); };
  client->peer_progress = [this] { server->progress(); };
}

Settings PairTest::make_settings() { return settings_for(GetParam()); }

void PairTest::listen() {
  const sockaddr_in any = ipv4("127.0.0.1", 0);
  auto listener =
      server->rnic.listen(reinterpret_cast<const sockaddr*>(&any), 16, false, /*cookie=*/99);
  ASSERT_TRUE(listener.ok()) << listener.error().text;
  listener_number = *listener;
  ASSERT_TRUE(server->rnic.listener_address(*listener, &server_address).ok());
}

void PairTest::begin(QPHandle& client_qp, std::vector<std::uint8_t> private_data) {
  auto connection = client->rnic.connect(
      nullptr, reinterpret_cast<const sockaddr*>(&server_address),
      {.qp = client_qp.face.number, .ird = 4, .ord = 4, .private_data = private_data},
      /*cookie=*/11);
  ASSERT_TRUE(connection.ok()) << connection.error().text;
  client_connection = *connection;
  const auto requested = server->wait_event();
  ASSERT_TRUE(requested.has_value());
  ASSERT_EQ(requested->event.kind, device::ConnectionEventKind::Requested);
  EXPECT_EQ(requested->event.cookie, 99u);
  EXPECT_EQ(requested->private_data, private_data);
  server_connection = requested->event.connection;
}

void PairTest::establish(QPHandle& client_qp, QPHandle& server_qp) {
  begin(client_qp);
  if (HasFatalFailure()) return;
  ASSERT_TRUE(server->rnic
                  .accept(server_connection,
                          {.qp = server_qp.face.number, .ird = 4, .ord = 4, .private_data = {}},
                          /*cookie=*/22)
                  .ok());
  for (Side* side : {client.get(), server.get()}) {
    const auto event = side->wait_event();
    ASSERT_TRUE(event.has_value());
    ASSERT_EQ(event->event.kind, device::ConnectionEventKind::Established) << event->event.text;
    EXPECT_EQ(event->event.cookie, side == client.get() ? 11u : 22u);
  }
}

}  // namespace weft::engine::testing

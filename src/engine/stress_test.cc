// Random life: several threads connect, accept, reject, post, disconnect and destroy on several
// devices of one process. Whatever the order, every connection ends once for each end that knew of
// it, every accepted post completes at most once, and nothing is left open.
#include <atomic>
#include <map>
#include <random>
#include <vector>

#include "engine/testing/resources.h"
#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using device::ConnectionEventKind;
using testing::QPHandle;

constexpr int kDevices = 3;
constexpr std::chrono::milliseconds kDuration{1500};

/// One device: its thread is the only one that touches its QPs, others only poll and make progress.
class Node final : public device::Events {
 public:
  Node(const Settings& settings, std::uint64_t seed) : random_(seed), rnic_(settings, *this, tcp_) {
    EXPECT_TRUE(rnic_.start().ok());
    pd_ = *rnic_.create_pd();
    cq_ = *rnic_.create_cq(1 << 14, 1);
    stag_ = *rnic_.register_region({.pd = pd_,
                                    .access = device::kLocalWrite,
                                    .address = reinterpret_cast<std::uintptr_t>(memory_.data()),
                                    .octets = memory_.size(),
                                    .base_to = reinterpret_cast<std::uintptr_t>(memory_.data())});
    const sockaddr_in any = testing::ipv4("127.0.0.1", 0);
    listener_ = *rnic_.listen(reinterpret_cast<const sockaddr*>(&any), 64, false, kListenerCookie);
    EXPECT_TRUE(rnic_.listener_address(listener_, &address).ok());
  }

  void handle_completion_event(std::uint64_t) override {}
  void handle_async_event(const device::AsyncEvent&) override {}
  void handle_connection_event(const device::ConnectionEvent& event) override {
    const std::scoped_lock hold(mutex_);
    events_.push_back(event);
    events_.back().private_data = {};
  }

  void step(const std::vector<std::unique_ptr<Node>>& nodes) {
    take_events();
    drain_completions();
    switch (random_() % 10) {
      case 0:
      case 1:
        if (ends_.size() < 24) begin(*nodes[random_() % nodes.size()]);
        break;
      case 2:
        answer_request();
        break;
      case 3:
        if (auto* end = pick()) static_cast<void>(rnic_.disconnect(end->connection));
        break;
      case 4:
        if (random_() % 4 == 0) destroy(pick());
        break;
      case 5:
        if (auto* end = pick(); end != nullptr && random_() % 8 == 0) {
          static_cast<void>(rnic_.command_qp(end->qp.face.number, device::QPCommand::Fail));
        }
        break;
      default:
        if (auto* end = pick()) post(*end);
    }
    if (random_() % 4 == 0) rnic_.poll(random_() % 8);  // a CQ of its own, or another number
  }
  /// Any thread.
  void look_in() {
    rnic_.poll(device::kNoCQ);
    if (rnic_.progress_fd() >= 0) rnic_.progress();
  }
  void finish() {
    while (!ends_.empty()) destroy(&ends_.begin()->second);
    EXPECT_TRUE(rnic_.close_listener(listener_).ok());
    for (const auto request : requests_) static_cast<void>(rnic_.reject(request, {}));
    requests_.clear();
  }
  /// After everything is over; true when all who were told of a connection were told of its end.
  void settle() {
    take_events();
    for (const auto request : requests_) static_cast<void>(rnic_.reject(request, {}));
    requests_.clear();
    drain_completions();
  }
  int open_ends() const { return begun_ - ended_; }
  int begun() const { return begun_; }
  int established() const { return established_; }
  int completions() const { return completions_; }
  bool destroy_queues() {
    return rnic_.destroy_cq(cq_.number).ok() && rnic_.deregister_region(stag_).ok() &&
           rnic_.destroy_pd(pd_).ok();
  }

  sockaddr_storage address = {};

 private:
  static constexpr std::uint64_t kListenerCookie = 1;
  struct End {
    QPHandle qp;
    device::ConnectionNumber connection = 0;
    std::uint64_t cookie = 0;
  };
  enum class Life : std::uint8_t { Begun, Established, Ended };

  End* pick() {
    if (ends_.empty()) return nullptr;
    return &std::next(ends_.begin(), static_cast<long>(random_() % ends_.size()))->second;
  }
  std::optional<End> make_end() {
    auto face = rnic_.create_qp({.pd = pd_,
                                 .send_cq = cq_.number,
                                 .receive_cq = cq_.number,
                                 .send_depth = 16,
                                 .receive_depth = 16,
                                 .inline_octets = 64,
                                 .cookie = ++last_cookie_});
    if (!face) return std::nullopt;
    return End{{*face}, 0, last_cookie_};
  }
  void begin(Node& target) {
    auto end = make_end();
    ASSERT_TRUE(end.has_value());
    {
      const std::scoped_lock hold(mutex_);
      lives_[end->cookie] = Life::Begun;
    }
    const auto connection =
        rnic_.connect(nullptr, reinterpret_cast<const sockaddr*>(&target.address),
                      {.qp = end->qp.face.number, .ird = 4, .ord = 4, .private_data = {}},
                      end->cookie);
    if (!connection) return give_up(*end);
    ++begun_;
    end->connection = *connection;
    ends_.emplace(end->cookie, *end);
  }
  void answer_request() {
    if (requests_.empty()) return;
    const auto request = requests_.back();
    requests_.pop_back();
    if (random_() % 5 == 0) return static_cast<void>(rnic_.reject(request, {}));
    auto end = make_end();
    ASSERT_TRUE(end.has_value());
    {
      const std::scoped_lock hold(mutex_);
      lives_[end->cookie] = Life::Begun;
    }
    end->connection = request;
    if (!rnic_.accept(request,
                      {.qp = end->qp.face.number, .ird = 4, .ord = 4, .private_data = {}},
                      end->cookie)) {
      return give_up(*end);
    }
    ++begun_;
    ends_.emplace(end->cookie, *end);
  }
  void give_up(const End& end) {
    EXPECT_TRUE(rnic_.destroy_qp(end.qp.face.number).ok());
    const std::scoped_lock hold(mutex_);
    lives_.erase(end.cookie);
  }
  void destroy(End* end) {
    if (end == nullptr) return;
    EXPECT_TRUE(rnic_.destroy_qp(end->qp.face.number).ok());
    ends_.erase(end->cookie);
  }
  void post(End& end) {
    QPHandle& qp = end.qp;
    const auto octets = static_cast<std::uint32_t>(random_() % 20'000);
    const device::SGEntry sge{reinterpret_cast<std::uintptr_t>(memory_.data()), octets, stag_};
    if (random_() % 2 == 0) {
      if (qp.face.receive.full()) return;
      auto* entry = static_cast<device::ReceiveEntry*>(qp.face.receive.entry(qp.receives));
      *entry = {.wr_id = 0, .sge_count = 1, .reserved = 0};
      entry->sges()[0] = {sge.address, 20'000, stag_};
      qp.face.receive.publish(++qp.receives);
      rnic_.ring_receive(qp.face.number);
    } else {
      if (qp.face.send.full()) return;
      auto* entry = static_cast<device::SendEntry*>(qp.face.send.entry(qp.sends));
      *entry = {.wr_id = 0,
                .remote_to = 0,
                .remote_stag = 0,
                .invalidate_stag = 0,
                .opcode = device::SendOpcode::Send,
                .flags = device::kSignaled,
                .sge_count = 1,
                .inline_octets = 0};
      entry->sges()[0] = sge;
      qp.face.send.publish(++qp.sends);
      rnic_.ring_send(qp.face.number, {});
    }
    ++posts_;
  }
  void drain_completions() {
    while (!cq_.completions.empty()) {
      cq_.completions.release(cq_.completions.consumed_own() + 1);
      ++completions_;
    }
    EXPECT_LE(completions_, posts_);
  }
  void take_events() {
    std::vector<device::ConnectionEvent> events;
    const std::scoped_lock hold(mutex_);
    events.swap(events_);
    for (const device::ConnectionEvent& event : events) {
      if (event.cookie == kListenerCookie) {
        if (event.kind == ConnectionEventKind::Requested) {
          requests_.push_back(event.connection);
        } else {
          std::erase(requests_, event.connection);
        }
        continue;
      }
      const auto life = lives_.find(event.cookie);
      ASSERT_NE(life, lives_.end());
      if (event.kind == ConnectionEventKind::Established) {
        EXPECT_EQ(life->second, Life::Begun);
        life->second = Life::Established;
        ++established_;
        continue;
      }
      EXPECT_EQ(life->second, event.kind == ConnectionEventKind::Disconnected ? Life::Established
                                                                             : Life::Begun);
      life->second = Life::Ended;
      ++ended_;
    }
  }

  std::mt19937_64 random_;
  transport::TCPTransport tcp_;
  std::vector<std::uint8_t> memory_ = std::vector<std::uint8_t>(20'000);
  std::mutex mutex_;
  std::vector<device::ConnectionEvent> events_;
  std::map<std::uint64_t, Life> lives_;
  std::vector<device::ConnectionNumber> requests_;
  std::map<std::uint64_t, End> ends_;
  std::uint64_t last_cookie_ = 100;
  int begun_ = 0, ended_ = 0, established_ = 0, posts_ = 0, completions_ = 0;
  Rnic rnic_;
  device::PDNumber pd_ = 0;
  device::CQFace cq_;
  std::uint32_t stag_ = 0;
  device::ListenerNumber listener_ = 0;
};

class StressTest : public ::testing::TestWithParam<Placement> {};

TEST_P(StressTest, EverythingEndsOnce) {
  const int before = testing::count_descriptors();
  int begun = 0, established = 0, completions = 0;
  {
    Settings settings;
    settings.engine = GetParam();
    settings.close_timeout = std::chrono::milliseconds(300);
    settings.startup_timeout = std::chrono::milliseconds(1000);
    std::vector<std::unique_ptr<Node>> nodes;
    for (std::uint64_t i = 0; i < kDevices; ++i) {
      nodes.push_back(std::make_unique<Node>(settings, 20261120 + i));
    }
    const int idle = testing::count_descriptors();
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (auto& node : nodes) {
      threads.emplace_back([&, n = node.get()] {
        while (!stop.load()) n->step(nodes);
        n->finish();
      });
    }
    std::thread onlooker([&] {
      for (std::size_t i = 0; !stop.load(); ++i) nodes[i % nodes.size()]->look_in();
    });
    std::this_thread::sleep_for(kDuration);
    stop.store(true);
    for (std::thread& thread : threads) thread.join();
    onlooker.join();

    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    int open = -1;
    while (std::chrono::steady_clock::now() < deadline) {
      open = 0;
      for (auto& node : nodes) {
        node->look_in();
        node->settle();
        open += node->open_ends();
      }
      // Each node's listener is closed by now.
      if (open == 0 && testing::count_descriptors() == idle - kDevices) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_EQ(open, 0);
    EXPECT_EQ(testing::count_descriptors(), idle - kDevices);
    for (auto& node : nodes) {
      begun += node->begun();
      established += node->established();
      completions += node->completions();
      EXPECT_TRUE(node->destroy_queues());
    }
  }
  EXPECT_EQ(testing::count_descriptors(), before);
  EXPECT_GT(established, 0) << "of " << begun;
  EXPECT_GT(completions, 0);
  RecordProperty("begun", begun);
  RecordProperty("established", established);
}

INSTANTIATE_TEST_SUITE_P(Placements, StressTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine

// Memory windows at the device line: their life, their binding by ring entries good and bad.
#include <cerrno>
#include <string>

#include "engine/testing/side.h"

namespace weft::engine {
namespace {

using device::CompletionStatus;
using device::SendOpcode;
using device::WindowKind;
using testing::QPHandle;
using testing::Side;

constexpr std::uint32_t kRemote = device::kRemoteRead | device::kRemoteWrite;

class WindowTest : public testing::PairTest {
 protected:
  void SetUp() override {
    start();
    listen();
  }
  void connect() {
    here = client->make_qp(), there = server->make_qp(2);
    establish(here, there);
    if (HasFatalFailure()) return;
    region = server->register_octets(memory, sizeof memory,
                                     device::kLocalWrite | kRemote | device::kWindowBind);
    sink = client->register_octets(copy, sizeof copy, device::kLocalWrite);
  }
  std::uint64_t at(std::size_t offset) const {
    return reinterpret_cast<std::uintptr_t>(memory) + offset;
  }
  CompletionStatus bind(std::uint32_t stag, const device::BindEntry& binding) {
    server->post_send(
        there,
        {.opcode = SendOpcode::BindWindow, .wr_id = 5, .remote_stag = stag, .binding = binding});
    const auto entry = server->wait_completion();
    EXPECT_TRUE(entry && entry->wr_id == 5 &&
                entry->opcode == device::CompletionOpcode::BindWindow);
    return entry ? entry->status : CompletionStatus::Fatal;
  }
  CompletionStatus read(std::uint32_t stag, std::uint64_t to, std::uint32_t octets) {
    client->post_send(here, {.opcode = SendOpcode::Read,
                             .address = copy,
                             .octets = octets,
                             .stag = sink,
                             .remote_stag = stag,
                             .remote_to = to});
    const auto entry = client->wait_completion();
    EXPECT_TRUE(entry.has_value());
    return entry ? entry->status : CompletionStatus::Fatal;
  }

  char memory[64] = "0123456789abcdef";
  char copy[64] = {};
  QPHandle here, there;
  std::uint32_t region = 0, sink = 0;
};

TEST_P(WindowTest, AWindowNeedsItsPDAndHoldsIt) {
  Rnic& rnic = server->rnic;
  EXPECT_EQ(rnic.allocate_window(0, WindowKind::Type1).error().code, EINVAL);
  EXPECT_EQ(rnic.allocate_window(server->pd + 77, WindowKind::Type1).error().code, EINVAL);
  const auto pd = rnic.create_pd();
  ASSERT_TRUE(pd.ok());
  const auto window = rnic.allocate_window(*pd, WindowKind::Type2);
  ASSERT_TRUE(window.ok());
  EXPECT_EQ(rnic.destroy_pd(*pd).error().code, EBUSY);
  EXPECT_EQ(rnic.deregister_region(*window).error().code, EINVAL);
  EXPECT_TRUE(rnic.deallocate_window(*window ^ 0x5a).ok()) << "whatever its key";
  EXPECT_EQ(rnic.deallocate_window(*window).error().code, EINVAL);
  EXPECT_TRUE(rnic.destroy_pd(*pd).ok());
}

TEST_P(WindowTest, OpensAPartOfItsRegionUntilItGoes) {
  connect();
  ASSERT_FALSE(HasFatalFailure());
  const auto window = server->rnic.allocate_window(server->pd, WindowKind::Type1);
  ASSERT_TRUE(window.ok());
  ASSERT_EQ(bind(*window, {at(4), 8, region, kRemote}), CompletionStatus::Success);
  EXPECT_EQ(read(*window, at(4), 8), CompletionStatus::Success);
  EXPECT_EQ(std::string(copy, 8), "456789ab");
  EXPECT_EQ(server->rnic.deregister_region(region).error().code, EBUSY);
  ASSERT_TRUE(server->rnic.deallocate_window(*window).ok());
  EXPECT_EQ(read(*window, at(4), 8), CompletionStatus::RemoteAccess);
  EXPECT_TRUE(server->rnic.deregister_region(region).ok());
}

TEST_P(WindowTest, TheEndOfTheQPThatBoundItCloses) {
  connect();
  ASSERT_FALSE(HasFatalFailure());
  const auto window = server->rnic.allocate_window(server->pd, WindowKind::Type2);
  ASSERT_TRUE(window.ok());
  ASSERT_EQ(bind(*window, {at(4), 8, region, kRemote}), CompletionStatus::Success);
  EXPECT_EQ(server->rnic.deregister_region(region).error().code, EBUSY);
  EXPECT_TRUE(server->rnic.destroy_qp(there.face.number).ok());
  EXPECT_TRUE(server->rnic.deregister_region(region).ok());
  EXPECT_TRUE(server->rnic.deallocate_window(*window).ok());
}

TEST_P(WindowTest, ResettingTheQPCloses) {
  connect();
  ASSERT_FALSE(HasFatalFailure());
  const auto window = server->rnic.allocate_window(server->pd, WindowKind::Type2);
  ASSERT_TRUE(window.ok());
  ASSERT_EQ(bind(*window, {at(4), 8, region, kRemote}), CompletionStatus::Success);
  ASSERT_TRUE(server->rnic.command_qp(there.face.number, device::QPCommand::Fail).ok());
  EXPECT_EQ(server->rnic.deregister_region(region).error().code, EBUSY);
  ASSERT_TRUE(server->rnic.command_qp(there.face.number, device::QPCommand::Reset).ok());
  EXPECT_TRUE(server->rnic.deregister_region(region).ok());
}

/// What a program may write into a ring if it does not go through the verbs.
TEST_P(WindowTest, EntriesThatMakeNoSenseFailAndBindNothing) {
  constexpr std::uint64_t kTop = ~std::uint64_t{0};
  struct Row {
    const char* name;
    std::uint32_t stag_flip;
    device::BindEntry binding;
    CompletionStatus status;
  };
  for (const Row& row :
       {Row{"no such window", 0xffffff00, {0, 8, 0, kRemote}, CompletionStatus::WindowBind},
        Row{"no region", 0, {0, 8, 0xdead00, kRemote}, CompletionStatus::WindowBind},
        Row{"passing 2^64", 0, {kTop, kTop, 0, kRemote}, CompletionStatus::WindowBind},
        Row{"local rights", 0, {0, 8, 0, device::kLocalWrite}, CompletionStatus::WindowBind},
        Row{"all rights", 0, {0, 8, 0, ~0u}, CompletionStatus::WindowBind}}) {
    SCOPED_TRACE(row.name);
    connect();
    ASSERT_FALSE(HasFatalFailure());
    const auto window = server->rnic.allocate_window(server->pd, WindowKind::Type2);
    ASSERT_TRUE(window.ok());
    device::BindEntry binding = row.binding;
    binding.to += at(0);
    if (binding.region_stag == 0) binding.region_stag = region;
    EXPECT_EQ(bind(*window ^ row.stag_flip, binding), row.status);
    for (Side* side : {client.get(), server.get()}) {
      const auto event = side->wait_event();
      ASSERT_TRUE(event.has_value());
      EXPECT_EQ(event->event.kind, device::ConnectionEventKind::Disconnected);
    }
    EXPECT_TRUE(server->rnic.deregister_region(region).ok()) << "nothing is bound";
    EXPECT_TRUE(server->rnic.deallocate_window(*window).ok());
  }
}

TEST_P(WindowTest, ABindThatCarriesDataFails) {
  for (const bool is_inline : {false, true}) {
    connect();
    ASSERT_FALSE(HasFatalFailure());
    const auto window = server->rnic.allocate_window(server->pd, WindowKind::Type2);
    ASSERT_TRUE(window.ok());
    auto* entry = static_cast<device::SendEntry*>(there.face.send.entry(there.sends));
    *entry = {};
    entry->remote_stag = *window;
    entry->opcode = SendOpcode::BindWindow;
    entry->flags = is_inline ? device::kInline : 0;
    entry->sge_count = 1;
    entry->inline_octets = 24;
    *entry->binding() = {at(0), 8, region, kRemote};
    there.face.send.publish(++there.sends);
    server->rnic.ring_send(there.face.number, {});
    const auto failed = server->wait_completion();
    ASSERT_TRUE(failed.has_value());
    EXPECT_EQ(failed->status, CompletionStatus::LocalQPOperation);
    EXPECT_TRUE(server->rnic.deregister_region(region).ok()) << "nothing is bound";
    for (Side* side : {client.get(), server.get()}) EXPECT_TRUE(side->wait_event().has_value());
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, WindowTest,
                         ::testing::Values(Placement::Inline, Placement::Thread),
                         [](const auto& param) {
                           return param.param == Placement::Inline ? "inline" : "thread";
                         });

}  // namespace
}  // namespace weft::engine

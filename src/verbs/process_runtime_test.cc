// Tests of the interfaces, the lazy start, and the fork.
#include "verbs/process_runtime.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstring>

#include "verbs/testing/fake_runtime.h"

namespace weft::verbs {
namespace {

sockaddr_storage address(const char* text) {
  sockaddr_storage storage = {};
  auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
  if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
  } else if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
  }
  return storage;
}
const Interface* interface_of(const char* text) {
  const sockaddr_storage storage = address(text);
  return ProcessRuntime::instance().interface_of(reinterpret_cast<const sockaddr*>(&storage));
}

/// Runs `body` in a forked child; true when it returned true.
template <typename Body>
bool in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Interfaces, LoopbackIsThere) {
  const Interface* loopback = ProcessRuntime::instance().interface_named("weft_lo");
  ASSERT_NE(loopback, nullptr);
  EXPECT_STREQ(loopback->netdev, "lo");
  EXPECT_TRUE(loopback->up);
  EXPECT_GE(loopback->mtu, 1280u);
  EXPECT_NE(loopback->guid, 0u);
  EXPECT_EQ(ProcessRuntime::instance().interface_named("weft_nothing"), nullptr);
}

TEST(Interfaces, ListsStayValidAndAreNotStoredTwice) {
  auto& runtime = ProcessRuntime::instance();
  const auto first = runtime.interfaces();
  for (int i = 0; i < 100; ++i) {
    const auto again = runtime.interfaces();
    ASSERT_EQ(again.data(), first.data());
  }
  for (std::size_t i = 1; i < first.size(); ++i) {
    EXPECT_LT(first[i - 1]->index, first[i]->index);
    EXPECT_NE(first[i - 1]->guid, first[i]->guid);
  }
}

TEST(Interfaces, AreFoundByAddress) {
  const Interface* loopback = ProcessRuntime::instance().interface_named("weft_lo");
  EXPECT_EQ(interface_of("127.0.0.1"), loopback);
  EXPECT_EQ(interface_of("127.1.2.3"), loopback) << "by its route";
  const sockaddr nonsense = {AF_UNIX, {}};
  EXPECT_EQ(ProcessRuntime::instance().interface_of(&nonsense), nullptr);
  const auto addresses = ProcessRuntime::instance().addresses(loopback->index);
  ASSERT_FALSE(addresses.empty());
  EXPECT_EQ(addresses[0].address.ss_family, AF_INET);
}

TEST(Interfaces, ScopeDecidesBetweenLinkLocalAddresses) {
  std::vector<InterfaceAddress> addresses(2, {0, address("fe80::1")});
  addresses[0].index = 4;
  addresses[1].index = 7;
  reinterpret_cast<sockaddr_in6&>(addresses[0].address).sin6_scope_id = 4;
  reinterpret_cast<sockaddr_in6&>(addresses[1].address).sin6_scope_id = 7;
  sockaddr_storage wanted = address("fe80::1");
  const auto* generic = reinterpret_cast<const sockaddr*>(&wanted);
  reinterpret_cast<sockaddr_in6&>(wanted).sin6_scope_id = 7;
  EXPECT_EQ(index_with_address(addresses, generic), 7u);
  reinterpret_cast<sockaddr_in6&>(wanted).sin6_scope_id = 9;
  EXPECT_EQ(index_with_address(addresses, generic), 0u);
}

TEST(Runtime, ABadSettingIsToldAndLeavesTheRuntimeUsable) {
  ASSERT_TRUE(in_child([] {
    auto& runtime = ProcessRuntime::instance();
    testing::make_device_failure = "weft: no such setting";
    const auto first = runtime.device();
    const auto second = runtime.device();
    if (first || second || first.error().code != EINVAL) return false;
    if (std::strcmp(first.error().text, "weft: no such setting") != 0) return false;
    if (first.error().text != second.error().text) return false;
    const auto checked = runtime.check_settings();
    if (checked || checked.error().text != first.error().text) return false;
    testing::make_device_failure.clear();
    return runtime.check_settings().ok() && runtime.device().ok();
  }));
}

TEST(Runtime, AForkedChildStartsAnew) {
  auto& runtime = ProcessRuntime::instance();
  const std::uint32_t generation = runtime.generation();
  ASSERT_TRUE(in_child([&] {
    // Nobody had a device yet: the child's world is the parent's.
    return runtime.device().ok() && runtime.generation() == generation;
  }));
  device::Device* parents = *runtime.device();
  ASSERT_TRUE(in_child([&] {
    const auto own = runtime.device();
    return own && *own != parents && runtime.generation() == generation + 1;
  }));
  EXPECT_EQ(*runtime.device(), parents);
  EXPECT_EQ(runtime.generation(), generation);
}

}  // namespace
}  // namespace weft::verbs

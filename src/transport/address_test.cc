// Address: families, ports, comparison and text.
#include "transport/address.h"

#include "transport/test_streams.h"

namespace weft::transport {
namespace {

using testing::v4;
using testing::v6;

std::string text(const Address& address) {
  return address.text().data();
}

TEST(Address, UnspecifiedIsAnyAndHasNoLength) {
  const Address none;
  EXPECT_EQ(none.family(), AF_UNSPEC);
  EXPECT_EQ(none.length(), 0u);
  EXPECT_EQ(none.port(), 0);
  EXPECT_TRUE(none.is_any());
  EXPECT_FALSE(none.is_loopback());
  EXPECT_EQ(text(none), "unspecified");
}

TEST(Address, OtherFamiliesAndNullGiveUnspecified) {
  sockaddr_storage unix_name = {};
  unix_name.ss_family = AF_UNIX;
  EXPECT_EQ(Address(reinterpret_cast<const sockaddr*>(&unix_name)).length(), 0u);
  EXPECT_EQ(Address(nullptr).length(), 0u);
}

TEST(Address, SetPortOnUnspecifiedDoesNothing) {
  Address none;
  none.set_port(7);
  EXPECT_EQ(none.port(), 0);
}

TEST(Address, TextAndPorts) {
  Address four = v4("127.0.0.1", 7174);
  EXPECT_EQ(text(four), "127.0.0.1:7174");
  EXPECT_EQ(four.length(), sizeof(sockaddr_in));
  four.set_port(80);
  EXPECT_EQ(four.port(), 80);
  EXPECT_EQ(text(v6("::1", 7174)), "[::1]:7174");
  EXPECT_EQ(v6("::1", 7174).length(), sizeof(sockaddr_in6));
}

TEST(Address, LongestTextsFit) {
  const char* longest = "1111:2222:3333:4444:5555:6666:7777:8888";
  EXPECT_EQ(text(v6(longest, 65535, 4294967295u)),
            std::string("[") + longest + "%4294967295]:65535");
  EXPECT_EQ(text(v6("::ffff:255.255.255.255", 65535)), "[::ffff:255.255.255.255]:65535");
  EXPECT_EQ(text(v4("255.255.255.255", 65535)), "255.255.255.255:65535");
}

TEST(Address, AnyAndLoopback) {
  EXPECT_TRUE(v4("0.0.0.0", 5).is_any());
  EXPECT_TRUE(v6("::", 5).is_any());
  EXPECT_TRUE(v6("::ffff:0.0.0.0", 5).is_any());
  EXPECT_FALSE(v4("0.0.0.1", 5).is_any());
  EXPECT_FALSE(v6("::1", 5).is_any());
  EXPECT_TRUE(v4("127.9.9.9", 0).is_loopback());
  EXPECT_TRUE(v6("::1", 0).is_loopback());
  EXPECT_TRUE(v6("::ffff:127.0.0.1", 0).is_loopback());
  EXPECT_FALSE(v4("128.0.0.1", 0).is_loopback());
  EXPECT_FALSE(v6("1::1", 0).is_loopback());
  EXPECT_FALSE(v6("::", 0).is_loopback());
}

TEST(Address, SameHost) {
  EXPECT_TRUE(v4("10.0.0.1", 1).same_host(v4("10.0.0.1", 2)));
  EXPECT_FALSE(v4("10.0.0.1", 1).same_host(v4("10.0.0.2", 1)));
  EXPECT_TRUE(v4("10.0.0.1", 1).same_host(v6("::ffff:10.0.0.1", 2)));
  EXPECT_TRUE(v6("::ffff:10.0.0.1", 2).same_host(v4("10.0.0.1", 1)));
  EXPECT_FALSE(v6("::1", 1).same_host(v4("127.0.0.1", 1)));
  EXPECT_FALSE(v6("::", 1).same_host(v4("0.0.0.0", 1)));
  EXPECT_FALSE(Address().same_host(v4("0.0.0.0", 0)));
  EXPECT_TRUE(Address().same_host(Address()));
}

TEST(Address, ScopesTellLinkLocalHostsApart) {
  EXPECT_FALSE(v6("fe80::1", 1, 2).same_host(v6("fe80::1", 1, 3)));
  EXPECT_TRUE(v6("fe80::1", 1, 2).same_host(v6("fe80::1", 1, 2)));
  EXPECT_TRUE(v6("fe80::1", 1, 2).same_host(v6("fe80::1", 1)));
}

}  // namespace
}  // namespace weft::transport

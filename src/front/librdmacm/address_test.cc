// Addresses, held ports and chosen sources.
#include "front/librdmacm/address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weft::front::cm {
namespace {

sockaddr_storage make(const char* text, std::uint16_t port) {
  sockaddr_storage address{};
  auto& in = reinterpret_cast<sockaddr_in&>(address);
  auto& in6 = reinterpret_cast<sockaddr_in6&>(address);
  if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
  } else {
    EXPECT_EQ(inet_pton(AF_INET6, text, &in6.sin6_addr), 1) << text;
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(port);
  }
  return address;
}
sockaddr& plain(sockaddr_storage& address) { return reinterpret_cast<sockaddr&>(address); }
bool same(const sockaddr_storage& a, const sockaddr_storage& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

TEST(CMAddress, Octets) {
  auto v4 = make("127.0.0.1", 1), v6 = make("::1", 1);
  EXPECT_EQ(address_octets(plain(v4)), sizeof(sockaddr_in));
  EXPECT_EQ(address_octets(plain(v6)), sizeof(sockaddr_in6));
  v4.ss_family = AF_UNIX;
  EXPECT_EQ(address_octets(plain(v4)), 0u);
}

TEST(CMAddress, Ports) {
  for (const char* text : {"127.0.0.1", "::1"}) {
    auto address = make(text, 7174);
    EXPECT_EQ(port_of(plain(address)), 7174);
    set_port(plain(address), 65535);
    EXPECT_TRUE(same(address, make(text, 65535)));
  }
  sockaddr_storage other{};
  other.ss_family = AF_UNIX;
  const auto before = other;
  set_port(plain(other), 5);
  EXPECT_TRUE(same(other, before));
  EXPECT_EQ(port_of(plain(other)), 0);
}

TEST(CMAddress, Kinds) {
  struct Row {
    const char* text;
    bool any, loopback, multicast;
  };
  for (const Row& row :
       {Row{"0.0.0.0", true, false, false}, Row{"::", true, false, false},
        Row{"127.0.0.1", false, true, false}, Row{"127.255.255.254", false, true, false},
        Row{"126.255.255.255", false, false, false}, Row{"128.0.0.1", false, false, false},
        Row{"::1", false, true, false}, Row{"::2", false, false, false},
        Row{"224.0.0.1", false, false, true}, Row{"239.255.255.255", false, false, true},
        Row{"240.0.0.1", false, false, false}, Row{"ff02::1", false, false, true},
        Row{"::ffff:0.0.0.0", false, false, false}}) {
    auto address = make(row.text, 1);
    EXPECT_EQ(is_any(plain(address)), row.any) << row.text;
    EXPECT_EQ(is_loopback(plain(address)), row.loopback) << row.text;
    EXPECT_EQ(is_multicast(plain(address)), row.multicast) << row.text;
  }
}

TEST(CMAddress, LoopbackKeepsFamilyAndPort) {
  auto v4 = make("0.0.0.0", 7), v6 = make("::", 8);
  set_loopback(plain(v4));
  set_loopback(plain(v6));
  EXPECT_TRUE(same(v4, make("127.0.0.1", 7)));
  EXPECT_TRUE(same(v6, make("::1", 8)));
}

TEST(CMAddress, CopiesLeaveZerosBehindThem) {
  auto from = make("127.0.0.1", 7);
  sockaddr_storage to;
  std::memset(&to, 0xee, sizeof to);
  copy_address(to, plain(from));
  EXPECT_TRUE(same(to, from));
  copy_address(to, plain(to));
  EXPECT_TRUE(same(to, from)) << "onto itself";
}

TEST(CMAddress, MappedAddressesBecomeIPv4) {
  auto mapped = make("::ffff:192.0.2.7", 9);
  sockaddr_storage to{};
  copy_unmapped(to, plain(mapped));
  EXPECT_TRUE(same(to, make("192.0.2.7", 9)));
  auto v6 = make("2001:db8::1", 9);
  copy_unmapped(to, plain(v6));
  EXPECT_TRUE(same(to, v6));
}

TEST(CMAddress, GIDs) {
  auto v4 = make("192.0.2.7", 9), mapped = make("::ffff:192.0.2.7", 1);
  const ibv_gid a = gid_of(plain(v4)), b = gid_of(plain(mapped));
  EXPECT_EQ(std::memcmp(a.raw, b.raw, sizeof a.raw), 0);
  EXPECT_EQ(a.raw[15], 7);
}

TEST(CMAddress, AHeldPortIsTakenUntilItIsClosed) {
  for (const char* text : {"127.0.0.1", "::1"}) {
    auto address = make(text, 0);
    const int lowest = dup(STDIN_FILENO);
    close(lowest);
    auto held = hold_port(address, true);
    if (!held && held.error().code == EADDRNOTAVAIL) continue;  // a host without IPv6
    ASSERT_TRUE(held) << text;
    EXPECT_NE(port_of(plain(address)), 0);
    // Sharing needs SO_REUSEADDR on both: a plain program does not get the port.
    const int other = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(other, lowest) << "it takes no number that the program counts on";
    EXPECT_EQ(bind(other, &plain(address), address_octets(plain(address))), -1);
    EXPECT_EQ(errno, EADDRINUSE);
    close_socket(*held);
    EXPECT_EQ(bind(other, &plain(address), address_octets(plain(address))), 0);
    ASSERT_EQ(listen(other, 1), 0);
    auto refused = hold_port(address, true);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EADDRINUSE);
    close(other);
  }
  auto foreign = make("192.0.2.1", 0);
  auto refused = hold_port(foreign, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EADDRNOTAVAIL);
  close_socket(-1);  // nothing
}

TEST(CMAddress, SourceOfARoute) {
  auto target = make("127.0.0.1", 5);
  sockaddr_storage source{};
  ASSERT_TRUE(choose_source(plain(target), source));
  EXPECT_TRUE(same(source, make("127.0.0.1", 0)));
  source = make("0.0.0.0", 44);
  ASSERT_TRUE(choose_source(plain(target), source));
  EXPECT_TRUE(same(source, make("127.0.0.1", 44))) << "the port stays";
  source = make("127.0.0.2", 44);
  ASSERT_TRUE(choose_source(plain(target), source));
  EXPECT_TRUE(same(source, make("127.0.0.2", 44))) << "a source that was asked for stays";
  source = make("192.0.2.1", 44);
  const auto refused = choose_source(plain(target), source);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EADDRNOTAVAIL);
  EXPECT_TRUE(same(source, make("192.0.2.1", 44)));
}

}  // namespace
}  // namespace weft::front::cm

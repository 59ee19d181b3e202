// Address attributes from a received datagram's header, and Ethernet addresses from GIDs.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "front/testing/loopback_device.h"

namespace {

using Header = std::array<std::uint8_t, sizeof(ibv_grh)>;

class AddressTest : public ::testing::Test {
 protected:
  void SetUp() override {
    context = weft::front::testing::open_loopback();
    ASSERT_NE(context, nullptr);
    wc.wc_flags = IBV_WC_GRH;
  }
  void TearDown() override { EXPECT_EQ(ibv_close_device(context), 0); }

  /// What init_ah makes of a header: 0 or errno.
  int init(const Header& header) {
    ibv_grh grh;
    std::memcpy(&grh, header.data(), sizeof grh);
    std::memset(&ah, 0xee, sizeof ah);
    errno = 0;
    return ibv_init_ah_from_wc(context, 1, &wc, &grh, &ah) == 0 ? 0 : errno;
  }
  ibv_gid gid_at(int index) {
    ibv_gid gid{};
    EXPECT_EQ(ibv_query_gid(context, 1, index, &gid), 0);
    return gid;
  }

  ibv_context* context = nullptr;
  ibv_wc wc{};
  ibv_ah_attr ah{};
};

/// An IPv4 header at the end of the 40 octets; what precedes it is whatever the buffer held.
Header ipv4(const char* source, const char* target, std::uint8_t junk = 0x6b) {
  Header header;
  header.fill(junk);
  std::uint8_t* at = header.data() + 20;
  std::memset(at, 0, 20);
  at[0] = 0x45;
  at[1] = 0x2c;
  at[8] = 64;
  at[9] = 17;
  inet_pton(AF_INET, source, at + 12);
  inet_pton(AF_INET, target, at + 16);
  std::uint32_t sum = 0;
  for (int i = 0; i < 20; i += 2) sum += static_cast<std::uint32_t>(at[i] << 8 | at[i + 1]);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  at[10] = static_cast<std::uint8_t>(~sum >> 8);
  at[11] = static_cast<std::uint8_t>(~sum);
  return header;
}

TEST_F(AddressTest, WithoutAHeaderOnlyTheCompletionCounts) {
  wc.wc_flags = 0;
  wc.slid = 7;
  wc.sl = 3;
  wc.dlid_path_bits = 5;
  std::memset(&ah, 0xee, sizeof ah);
  ASSERT_EQ(ibv_init_ah_from_wc(context, 1, &wc, nullptr, &ah), 0) << "grh is not read";
  EXPECT_EQ(ah.dlid, 7);
  EXPECT_EQ(ah.sl, 3);
  EXPECT_EQ(ah.src_path_bits, 5);
  EXPECT_EQ(ah.is_global, 0);
  EXPECT_EQ(ah.port_num, 1);
}

TEST_F(AddressTest, IPv4IsRecognisedByItsChecksum) {
  // 0x6b as the first octet looks like IPv6's version: the checksum has to win.
  const Header header = ipv4("127.0.0.9", "127.0.0.1");
  ASSERT_EQ(init(header), 0);
  EXPECT_EQ(ah.is_global, 1);
  EXPECT_EQ(ah.grh.traffic_class, 0x2c);
  const std::uint8_t sender[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 9};
  EXPECT_EQ(std::memcmp(ah.grh.dgid.raw, sender, 16), 0) << "the answer goes to the sender";
  const ibv_gid local = gid_at(ah.grh.sgid_index);
  const std::uint8_t us[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  EXPECT_EQ(std::memcmp(local.raw, us, 16), 0);
  EXPECT_EQ(init(ipv4("127.0.0.9", "192.0.2.1")), ENOENT) << "not one of our GIDs";

  for (std::size_t at = 20; at < 40; ++at) {
    Header damaged = ipv4("127.0.0.9", "127.0.0.1", 0x11);
    damaged[at] ^= 0x04;
    EXPECT_EQ(init(damaged), EPROTONOSUPPORT) << at;
  }
}

TEST_F(AddressTest, IPv6HeaderAndNeither) {
  const ibv_gid local = gid_at(0);
  Header header{};
  header[0] = 0x6a;  // version 6, traffic class 0xa5, flow label 0xbcdef
  header[1] = 0x5b;
  header[2] = 0xcd;
  header[3] = 0xef;
  for (std::uint8_t i = 0; i < 16; ++i) header[8 + i] = static_cast<std::uint8_t>(0x20 + i);
  std::memcpy(header.data() + 24, local.raw, 16);
  ASSERT_EQ(init(header), 0);
  EXPECT_EQ(std::memcmp(ah.grh.dgid.raw, header.data() + 8, 16), 0);
  EXPECT_EQ(ah.grh.traffic_class, 0xa5);
  EXPECT_EQ(ah.grh.flow_label, 0xbcdefu);
  EXPECT_EQ(ah.grh.sgid_index, 0);
  header[39] ^= 0xff;
  EXPECT_EQ(init(header), ENOENT);
  header[0] = 0x50;
  EXPECT_EQ(init(header), EPROTONOSUPPORT);
}

TEST(EthernetOfGID, MulticastAndLinkLocal) {
  ibv_ah_attr attr{};
  std::uint8_t mac[ETHERNET_LL_SIZE];
  std::uint16_t vid = 7;
  const auto resolve = [&](const char* text, std::uint16_t* vlan) {
    EXPECT_EQ(inet_pton(AF_INET6, text, attr.grh.dgid.raw), 1);
    std::memset(mac, 0xee, sizeof mac);
    return ibv_resolve_eth_l2_from_gid(nullptr, &attr, mac, vlan);
  };
  const auto is = [&](std::array<std::uint8_t, 6> wanted) {
    return std::memcmp(mac, wanted.data(), 6) == 0;
  };
  EXPECT_EQ(resolve("ff02::1:ff12:3456", &vid), 0);
  EXPECT_TRUE(is({0x33, 0x33, 0xff, 0x12, 0x34, 0x56}));
  EXPECT_EQ(vid, 0xffff) << "no VLAN";
  EXPECT_EQ(resolve("fe80::211:22ff:fe33:4455", nullptr), 0);
  EXPECT_TRUE(is({0x00, 0x11, 0x22, 0x33, 0x44, 0x55}));
  vid = 7;
  for (const char* other : {"fe80::1", "2001:db8::211:22ff:fe33:4455", "::ffff:127.0.0.1", "::",
                            "fec0::211:22ff:fe33:4455"}) {
    EXPECT_EQ(resolve(other, &vid), -EOPNOTSUPP) << other;
    EXPECT_TRUE(is({0xee, 0xee, 0xee, 0xee, 0xee, 0xee})) << other;
    EXPECT_EQ(vid, 7);
  }
}

}  // namespace

// Tests of include/weft/settings.h: the table is well formed, and only its values are accepted.
#include <gtest/gtest.h>

#include <string>

#include "include/weft/settings.h"

namespace weft {
namespace {

TEST(Settings, EveryInitialValueIsAccepted) {
  for (const Setting& setting : kSettings) {
    EXPECT_TRUE(accepts(setting, setting.initial)) << setting.name;
    EXPECT_EQ(setting.name.substr(0, kSettingPrefix.size()), kSettingPrefix);
    EXPECT_EQ(find_setting(setting.name), &setting) << "the name stands twice: " << setting.name;
    EXPECT_FALSE(setting.help.empty());
  }
}

//= MPA-14
//= MPA-19
TEST(Settings, CRCIsOnUnlessSwitchedOffByName) {
  const Setting* crc = find_setting("WEFT_CRC");
  ASSERT_NE(crc, nullptr);
  EXPECT_EQ(crc->initial, "on");
  EXPECT_TRUE(accepts(*crc, "off"));
  for (const char* value : {"", "0", "no", "OFF", "off ", "of", "on|off", "|"}) {
    EXPECT_FALSE(accepts(*crc, value)) << value;
  }
}

TEST(Settings, RangesTakeBothEndsAndNothingBeyond) {
  const Setting* timeout = find_setting("WEFT_STARTUP_TIMEOUT_MS");
  ASSERT_NE(timeout, nullptr);
  for (const char* value : {"1", "10000", "600000"}) EXPECT_TRUE(accepts(*timeout, value)) << value;
  for (const char* value : {"", "0", "600001", "-1", "+1", "01", "1.5", "1s", " 1", "9999999999"}) {
    EXPECT_FALSE(accepts(*timeout, value)) << value;
  }
}

TEST(Settings, APathIsAbsolute) {
  const Setting* behind = find_setting("WEFT_VERBS_BEHIND");
  ASSERT_NE(behind, nullptr);
  for (const char* value : {"auto", "off", "/usr/lib/libibverbs.so.1", "/"}) {
    EXPECT_TRUE(accepts(*behind, value)) << value;
  }
  for (const char* value : {"", "on", "libibverbs.so.1", "./libibverbs.so.1", "auto|off"}) {
    EXPECT_FALSE(accepts(*behind, value)) << value;
  }
  // What is not said to be a path takes none.
  EXPECT_FALSE(accepts(*find_setting("WEFT_CRC"), "/on"));
}

TEST(Settings, AMisspeltNameFindsTheOneMeant) {
  EXPECT_EQ(find_setting("WEFT_CRCC"), nullptr);
  EXPECT_EQ(find_setting("WEFT_"), nullptr);
  EXPECT_EQ(nearest_setting("WEFT_CRCC")->name, "WEFT_CRC");
  EXPECT_EQ(nearest_setting("WEFT_ENIGNE")->name, "WEFT_ENGINE");
  EXPECT_EQ(nearest_setting("WEFT_STARTUP_TIMEOUT")->name, "WEFT_STARTUP_TIMEOUT_MS");
}

TEST(Settings, EditDistanceCountsASwapAsOne) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("run", "rnu"), 1u);
  EXPECT_EQ(edit_distance("devices", "device"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance(std::string(65, 'a'), "a"), 64u);
}

}  // namespace

TEST(Settings, AddressesMayBePrefixes) {
  const Setting* addresses = find_setting("WEFT_IWARP_ADDRESS");
  ASSERT_NE(addresses, nullptr);
  for (const char* value : {"any", "10.0.0.0/8", "127.0.0.1", "0.0.0.0/0,fd00::/8", "::1/128",
                            "::ffff:10.1.2.3", "255.255.255.255/32"}) {
    EXPECT_TRUE(accepts(*addresses, value)) << value;
  }
  for (const char* value : {"", "10.0.0", "10.0.0.0/33", "10.0.0.256", "1.2.3.4.5", "10.0.0.0/",
                            "10.0.0.0,", ",::1", "::1/129", "host", "::g", "1.2.3.4/x", "1..2.3"}) {
    EXPECT_FALSE(accepts(*addresses, value)) << value;
  }
}

TEST(Settings, NamesAreNoPaths) {
  const Setting* names = find_setting("WEFT_IWARP_PROGRAM");
  ASSERT_NE(names, nullptr);
  for (const char* value : {"any", "nginx", "nginx,curl", "python3.11"}) {
    EXPECT_TRUE(accepts(*names, value)) << value;
  }
  for (const char* value : {"", "/usr/sbin/nginx", "nginx,", ",nginx", "a,,b"}) {
    EXPECT_FALSE(accepts(*names, value)) << value;
  }
}

TEST(Settings, PortsAreNumbersAndRangesWithCommasBetween) {
  const Setting* ports = find_setting("WEFT_IWARP_PORT");
  ASSERT_NE(ports, nullptr);
  for (const char* value : {"none", "1", "65535", "6379,7000-7010", "5-5,6"}) {
    EXPECT_TRUE(accepts(*ports, value)) << value;
  }
  for (const char* value :
       {"", "0", "65536", "1,", ",1", "5-4", "5-", "-5", "1-2-3", "x", "1 2", "99999999999"}) {
    EXPECT_FALSE(accepts(*ports, value)) << value;
  }
}

}  // namespace weft

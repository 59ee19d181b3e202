// No second verbs library behind ours: switched off, not needed, missing, broken, or weft itself.
// All of ours works, and what there was to say is said once. Each reason is a ctest of its own.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

/// What is said, or an empty text for nothing.
const char* expected_sentence() {
  const char* text = std::getenv("BEHIND_EXPECTED");
  return text != nullptr ? text : "";
}

TEST(BehindAbsent, OursAreListedAloneAndWork) {
  const std::string expected = expected_sentence();
  testing::internal::CaptureStderr();
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ASSERT_NE(list, nullptr);
  ASSERT_GE(count, 1);
  EXPECT_EQ(list[count], nullptr);
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(std::strncmp(ibv_get_device_name(list[i]), "weft_", 5), 0) << i;
  }
  ibv_free_device_list(list);
  list = ibv_get_device_list(nullptr);  // is not said again
  ibv_context* context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  ASSERT_NE(context, nullptr);
  ibv_pd* pd = ibv_alloc_pd(context);
  EXPECT_NE(pd, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(context), 0);

  const std::string said = testing::internal::GetCapturedStderr();
  if (expected.empty()) {
    EXPECT_EQ(said, "");
  } else {
    const auto first = said.find(expected);
    EXPECT_NE(first, said.npos) << "said: " << said;
    EXPECT_EQ(said.find("weft: ", said.find("weft: ") + 1), said.npos) << "said: " << said;
  }
}

TEST(BehindAbsent, CallsForItFailOrNeedNothing) {
  EXPECT_EQ(ibv_fork_init(), 0);
  EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
  errno = 0;
  EXPECT_EQ(ibv_import_device(0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_async_event event = {};
  event.event_type = IBV_EVENT_PORT_ACTIVE;
  ibv_ack_async_event(&event);

  // An object of nobody's, so that no call on it can succeed.
  ibv_context nobody = {};
  errno = 0;
  EXPECT_EQ(ibv_alloc_pd(&nobody), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_qp qp = {};
  qp.context = &nobody;
  EXPECT_EQ(ibv_destroy_qp(&qp), EOPNOTSUPP);
  EXPECT_EQ(ibv_query_qp_data_in_order(&qp, IBV_WR_SEND, 0), 0);

  using Command = int();
  auto* command =
      reinterpret_cast<Command*>(dlvsym(RTLD_DEFAULT, "ibv_cmd_create_qp", "IBVERBS_PRIVATE_34"));
  ASSERT_NE(command, nullptr);
  EXPECT_EQ(command(), EOPNOTSUPP);
  using Count = unsigned(unsigned, const void*);
  auto* number = reinterpret_cast<Count*>(
      dlvsym(RTLD_DEFAULT, "__ioctl_final_num_attrs", "IBVERBS_PRIVATE_34"));
  EXPECT_EQ(number(9, nullptr), 9u);
}

}  // namespace

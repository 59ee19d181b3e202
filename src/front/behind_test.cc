// A second verbs library behind ours: its devices are listed after ours, and every call on one of
// its objects reaches it.
//
// The library is testing/behind, named by WEFT_VERBS_BEHIND or found by the loader's folders.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "front/libibverbs/hand_events.h"
#include "front/libibverbs/stream_rings.h"
#include "front/testing/behind/record.h"

namespace {

constexpr const char kEarlyDriver[] = "linked to the program";

template <typename Function>
Function* ours(const char* name, const char* node) {
  return reinterpret_cast<Function*>(dlvsym(RTLD_DEFAULT, name, node));
}

/// What a program did before it ever asked for devices, and the second library's record.
class Behind : public ::testing::Environment {
 public:
  void SetUp() override {
    // As the constructor of a provider that the program is linked to.
    ours<void(const void*)>("verbs_register_driver_34", "IBVERBS_PRIVATE_34")(kEarlyDriver);
    ASSERT_EQ(ibv_fork_init(), 0);
    EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
    EXPECT_EQ(find("libibverbs.so.1", "weft_test_record"), nullptr) << "loaded without need";

    // Two threads at once: it is loaded once.
    std::thread other([] { ibv_free_device_list(ibv_get_device_list(nullptr)); });
    ibv_free_device_list(ibv_get_device_list(nullptr));
    other.join();
    void* function = find("libibverbs.so.1", "weft_test_record");
    ASSERT_NE(function, nullptr) << "the second library was not loaded";
    record = reinterpret_cast<Record* (*)()>(function)();
  }

  /// A symbol of the library beside the second one.
  static void* find(const char* library, const char* symbol) {
    void* handle =
        dlopen((std::string(WEFT_TEST_BEHIND) + "/" + library).c_str(), RTLD_NOW | RTLD_NOLOAD);
    void* found = handle != nullptr ? dlsym(handle, symbol) : nullptr;
    if (handle != nullptr) dlclose(handle);
    return found;
  }

  static inline Record* record = nullptr;
};
const auto* const kBehind = ::testing::AddGlobalTestEnvironment(new Behind);

class BehindTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(Behind::record, nullptr);
    list = ibv_get_device_list(&count);
    ASSERT_NE(list, nullptr);
    for (int i = 0; i < count && our_device == nullptr; ++i) {
      if (std::strcmp(ibv_get_device_name(list[i]), "weft_lo") == 0) our_device = list[i];
    }
    ASSERT_NE(our_device, nullptr);
    record().error = 0;
    record().answer = 0;
  }
  void TearDown() override {
    record().error = 0;
    record().answer = 0;
    ibv_free_device_list(list);
    EXPECT_LE(record().lists, lost_lists);
  }
  static Record& record() { return *Behind::record; }
  /// The calls that reached the second library meanwhile.
  template <typename Function>
  static int calls(Function function) {
    const int before = record().calls;
    function();
    return record().calls - before;
  }
  static void tell(long answer, int error) {
    record().answer = answer;
    record().error = error;
  }
  ibv_context* foreign() { return ibv_open_device(static_cast<ibv_device*>(record().devices[0])); }

  ibv_device** list = nullptr;
  int count = 0;
  ibv_device* our_device = nullptr;
  static inline int lost_lists = 0;
};

TEST_F(BehindTest, DevicesStandBehindOurs) {
  ASSERT_GE(count, 3);
  EXPECT_EQ(list[count], nullptr);
  EXPECT_EQ(list[count - 2], record().devices[0]);
  EXPECT_EQ(list[count - 1], record().devices[1]);
  for (int i = 0; i < count - 2; ++i) {
    EXPECT_EQ(std::strncmp(ibv_get_device_name(list[i]), "weft_", 5), 0) << i;
  }
  EXPECT_STREQ(ibv_get_device_name(list[count - 2]), "behind_0");
  // One of them has the name of ours: both are there, ours first.
  EXPECT_NE(our_device, record().devices[1]);
  EXPECT_EQ(record().lists, lost_lists + 1);
}

TEST_F(BehindTest, ListsAreGivenBackEach) {
  ibv_device** second = ibv_get_device_list(nullptr);
  ibv_device** third = ibv_get_device_list(nullptr);
  EXPECT_EQ(record().lists, 3);
  second[0] = second[count - 1] = nullptr;  // a program may do so with its list
  ibv_free_device_list(second);
  EXPECT_EQ(record().lists, 2);
  // One that went to free() costs nothing but itself.
  std::free(third);
  std::vector<ibv_device**> more;
  for (int i = 0; i < 100; ++i) more.push_back(ibv_get_device_list(nullptr));
  for (ibv_device** each : more) ibv_free_device_list(each);
  lost_lists = 1;
  EXPECT_LE(record().lists, 1 + lost_lists);
}

TEST_F(BehindTest, AListThatFailsLeavesOurs) {
  tell(-1, ENOSYS);
  int left = 0;
  ibv_device** without = ibv_get_device_list(&left);
  ASSERT_NE(without, nullptr);
  EXPECT_EQ(left, count - 2);
  EXPECT_EQ(without[left], nullptr);
  ibv_free_device_list(without);
}

TEST_F(BehindTest, AProgramWalksThroughTheVerbs) {
  ibv_context* context = foreign();
  ASSERT_EQ(context, record().context);
  ibv_pd* pd = ibv_alloc_pd(context);
  EXPECT_EQ(pd, record().pd);
  char buffer[8];
  EXPECT_EQ(ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE), record().mr);
  EXPECT_STREQ(record().symbol, "ibv_reg_mr");
  EXPECT_EQ(record().arguments[1], reinterpret_cast<long>(buffer));
  EXPECT_EQ(record().arguments[2], 8);
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  ibv_cq* cq = ibv_create_cq(context, 10, &buffer, channel, 3);
  EXPECT_EQ(cq, record().cq);
  EXPECT_FALSE(weft_hand_events(channel, nullptr, nullptr)) << "its descriptor shows all";
  const long expected[] = {reinterpret_cast<long>(context), 10, reinterpret_cast<long>(&buffer),
                           reinterpret_cast<long>(channel), 3};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(record().arguments[i], expected[i]) << i;
  ibv_qp_init_attr init = {};
  init.send_cq = init.recv_cq = cq;
  ibv_qp* qp = ibv_create_qp(pd, &init);
  EXPECT_EQ(qp, record().qp);
  std::atomic<std::uint32_t> kept{0};
  EXPECT_FALSE(weft_keep_writes(qp, static_cast<ibv_mr*>(record().mr), &kept))
      << "its device places what comes";
  EXPECT_FALSE(weft_sum_sends(qp));

  // What the header inlines goes by the context's own operations.
  ibv_send_wr wr = {}, *bad = nullptr;
  tell(12, 0);
  EXPECT_EQ(ibv_post_send(qp, &wr, &bad), 12);
  EXPECT_STREQ(record().symbol, "operation post_send");
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(cq, 5, &wc), 12);
  EXPECT_EQ(record().arguments[1], 5);
  ibv_device_attr_ex extended;
  EXPECT_EQ(ibv_query_device_ex(context, nullptr, &extended), 12);
  EXPECT_STREQ(record().symbol, "operation query_device_ex");

  ibv_device_attr attributes;
  EXPECT_EQ(ibv_query_device(context, &attributes), 12);
  tell(-1, EBADF);
  errno = 0;
  EXPECT_EQ(ibv_destroy_qp(qp), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(ibv_close_device(context), -1);
  EXPECT_STREQ(record().symbol, "ibv_close_device");
}

TEST_F(BehindTest, OurDevicesWorkBesideAndNeverAskIt) {
  const int before = record().calls;
  ibv_context* context = ibv_open_device(our_device);
  ASSERT_NE(context, nullptr);
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  ibv_cq* cq = ibv_create_cq(context, 4, nullptr, channel, 0);
  char buffer[8];
  ibv_mr* mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
  ibv_qp_init_attr init = {};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {1, 1, 1, 1, 0};
  ibv_qp* qp = ibv_create_qp(pd, &init);
  ASSERT_TRUE(mr != nullptr && qp != nullptr);
  ibv_port_attr port;
  EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
  EXPECT_NE(ibv_get_device_guid(our_device), 0u);
  EXPECT_GT(ibv_get_device_index(our_device), 0);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(context), 0);
  EXPECT_EQ(record().calls, before) << record().symbol;
}

/// The verbs that are handed through, by the object that they are called on.
struct Handed {
  void* (*object)(Record& record);
  std::vector<const char*> verbs;
};

void* event_of_a_cq(Record& record) {
  static ibv_async_event event;
  event.event_type = IBV_EVENT_CQ_ERR;
  event.element.cq = static_cast<ibv_cq*>(record.cq);
  return &event;
}

const std::vector<Handed>& handed() {
  static const std::vector<Handed> kHanded = {
      {[](Record& r) { return r.devices[0]; },
       {"ibv_get_device_name", "ibv_get_device_guid", "ibv_get_device_index", "ibv_open_device"}},
      {[](Record& r) { return r.context; },
       {"ibv_close_device", "ibv_query_device", "ibv_query_port", "ibv_query_gid",
        "_ibv_query_gid_ex", "ibv_query_gid_type", "_ibv_query_gid_table", "ibv_query_pkey",
        "ibv_get_pkey_index", "ibv_alloc_pd", "ibv_create_comp_channel", "ibv_create_cq",
        "ibv_get_async_event", "ibv_import_pd", "ibv_import_dm", "ibv_init_ah_from_wc",
        "ibv_resolve_eth_l2_from_gid"}},
      {[](Record& r) { return r.pd; },
       {"ibv_dealloc_pd", "ibv_unimport_pd", "ibv_reg_mr", "ibv_reg_mr_iova", "ibv_reg_mr_iova2",
        "ibv_reg_dmabuf_mr", "ibv_import_mr", "ibv_create_qp", "ibv_create_srq", "ibv_create_ah",
        "ibv_create_ah_from_wc"}},
      {[](Record& r) { return r.mr; }, {"ibv_dereg_mr", "ibv_rereg_mr", "ibv_unimport_mr"}},
      {[](Record& r) { return r.channel; }, {"ibv_destroy_comp_channel", "ibv_get_cq_event"}},
      {[](Record& r) { return r.cq; }, {"ibv_resize_cq", "ibv_destroy_cq", "ibv_ack_cq_events"}},
      {[](Record& r) { return r.qp; },
       {"ibv_modify_qp", "ibv_query_qp", "ibv_destroy_qp", "ibv_qp_to_qp_ex",
        "ibv_query_qp_data_in_order", "ibv_set_ece", "ibv_query_ece", "ibv_attach_mcast",
        "ibv_detach_mcast"}},
      {[](Record& r) { return r.srq; }, {"ibv_modify_srq", "ibv_query_srq", "ibv_destroy_srq"}},
      {[](Record& r) { return r.ah; }, {"ibv_destroy_ah"}},
      {[](Record& r) { return r.dm; }, {"ibv_unimport_dm"}},
      {event_of_a_cq, {"ibv_ack_async_event"}},
      // A descriptor.
      {[](Record&) { return reinterpret_cast<void*>(7); }, {"ibv_import_device"}},
      // Memory, which is marked for all devices.
      {[](Record& r) -> void* { return &r; }, {"ibv_dontfork_range", "ibv_dofork_range"}},
      // Of nothing.
      {nullptr, {"ibv_fork_init", "ibv_is_fork_initialized"}},
  };
  return kHanded;
}

const Handed* find_handed(const std::string& name) {
  for (const Handed& row : handed()) {
    if (std::find(row.verbs.begin(), row.verbs.end(), name) != row.verbs.end()) return &row;
  }
  return nullptr;
}

/// What stays ours: what depends on nothing but its arguments; what reads the files that the other
/// would read; the lists, which have tests of their own above.
constexpr const char* kKept[] = {
    "ibv_copy_ah_attr_from_kern", "ibv_copy_path_rec_from_kern",
    "ibv_copy_path_rec_to_kern",  "ibv_copy_qp_attr_from_kern",
    "ibv_event_type_str",         "ibv_node_type_str",
    "ibv_port_state_str",         "ibv_wc_status_str",
    "ibv_wr_opcode_str",          "ibv_rate_to_mbps",
    "ibv_rate_to_mult",           "mbps_to_ibv_rate",
    "mult_to_ibv_rate",           "ibv_get_sysfs_path",
    "ibv_read_sysfs_file",        "ibv_get_device_list",
    "ibv_free_device_list",
};
bool is_kept(const std::string& name) {
  return std::find(std::begin(kKept), std::end(kKept), name) != std::end(kKept);
}

struct Symbol {
  const char* name;
  const char* node;
  bool is_private() const { return std::strcmp(node, "IBVERBS_PRIVATE_34") == 0; }
};
/// Made from the map, so that a symbol that is added to it is asked for here.
constexpr Symbol kSymbols[] = {
#define SYMBOL(name, node) {#name, node},
#include <exports.inc>
#undef SYMBOL
};

/// The functions' types do not matter: all that is looked at goes by the same registers.
using Any = long(long, long, long, long, long, long, long, long);

TEST_F(BehindTest, EveryVerbOfTheMapIsHandedThroughOrKeptForAReason) {
  alignas(16) static char zeros[1024];
  const auto zero = reinterpret_cast<long>(zeros);
  std::size_t next = 0;
  for (const Symbol& symbol : kSymbols) {
    const std::string name = symbol.name;
    const Handed* row = find_handed(name);
    if (row == nullptr) {
      EXPECT_TRUE(is_kept(name) || symbol.is_private()) << name << " is neither";
      continue;
    }
    auto* function = ours<Any>(symbol.name, symbol.node);
    ASSERT_NE(function, nullptr) << name;
    const long object = row->object != nullptr ? reinterpret_cast<long>(row->object(record())) : 0;
    const int answer = 0x5eed0000 + static_cast<int>(++next);
    const int error = 3000 + static_cast<int>(next);
    tell(answer, error);
    const int before = record().calls;
    errno = 0;
    const long result = function(object, zero, zero, zero, zero, zero, zero, zero);
    EXPECT_EQ(errno, error) << name;
    EXPECT_EQ(record().calls, before + 1) << name;
    EXPECT_EQ(record().symbol, name);
    if (row->object != nullptr) {
      EXPECT_EQ(record().arguments[0], object) << name;
    }
    const bool of_void = name.find("ack_") != name.npos || name.find("unimport") != name.npos;
    if (!of_void) {
      EXPECT_EQ(static_cast<int>(result), answer) << name;
    }
  }
  std::size_t rows = 0;
  for (const Handed& row : handed()) rows += row.verbs.size();
  EXPECT_EQ(next, rows) << "a name that is not in the map";
}

TEST_F(BehindTest, EveryPrivateSymbolLeadsThereWithAllItsArguments) {
  int next = 0;
  for (const Symbol& symbol : kSymbols) {
    if (!symbol.is_private() || is_kept(symbol.name)) continue;
    if (find_handed(symbol.name) != nullptr) continue;
    if (std::strcmp(symbol.name, "__verbs_log") == 0) continue;  // below
    auto* function = ours<Any>(symbol.name, symbol.node);
    ASSERT_NE(function, nullptr) << symbol.name;
    const long answer = 0x5eed000000000000 + ++next;
    tell(answer, 4000 + next);
    errno = 0;
    EXPECT_EQ(function(1, 2, 3, 4, 5, 6, 7, next), answer) << symbol.name;
    EXPECT_EQ(errno, 4000 + next) << symbol.name;
    EXPECT_STREQ(record().symbol, symbol.name);
    for (int i = 0; i < 7; ++i) EXPECT_EQ(record().arguments[i], i + 1) << symbol.name;
    EXPECT_EQ(record().arguments[7], next) << symbol.name;
  }
  EXPECT_GT(next, 60);
}

TEST_F(BehindTest, AProviderFindsTheLibraryThatLoadedIt) {
  const auto provider = [](const char* symbol) {
    void* found = Behind::find("libbehind-rdmav34.so", symbol);
    EXPECT_NE(found, nullptr) << symbol;
    return found;
  };
  // Both registered: the one it loads itself, and that of before, which came first.
  ASSERT_GE(record().driver_count, 2);
  EXPECT_EQ(record().drivers[0], kEarlyDriver);
  EXPECT_EQ(record().drivers[1], provider("weft_test_driver"));

  void* eight[8];
  for (int i = 0; i < 8; ++i) eight[i] = reinterpret_cast<void*>(100L + i);
  tell(-5, EIO);
  auto* command = reinterpret_cast<int (*)(void**)>(provider("weft_test_command"));
  EXPECT_EQ(command(eight), -5);
  EXPECT_EQ(errno, EIO);
  EXPECT_STREQ(record().symbol, "ibv_cmd_create_qp_ex2");
  for (int i = 0; i < 8; ++i) EXPECT_EQ(record().arguments[i], 100 + i) << i;

  reinterpret_cast<void (*)(void*)>(provider("weft_test_log"))(&eight);
  EXPECT_EQ(record().arguments[0], reinterpret_cast<long>(&eight));
  EXPECT_STREQ(record().log, "1 two 3.25 4 5 6.5 7");
  EXPECT_TRUE(reinterpret_cast<bool (*)()>(provider("weft_test_allows"))());
}

TEST_F(BehindTest, AForkIsPreparedThereToo) {
  // Before it was loaded the program asked once; the tables' tests ask again.
  EXPECT_GE(record().fork_init_calls, 1);
  const int before = record().fork_init_calls;
  tell(EINVAL, 0);
  EXPECT_EQ(ibv_fork_init(), EINVAL);
  EXPECT_EQ(record().fork_init_calls, before + 1);
}

TEST_F(BehindTest, EventsAreAcknowledgedWhereTheirObjectsAre) {
  ibv_async_event event = {};
  const auto acknowledged = [&](ibv_event_type type, void* element) {
    event.event_type = type;
    std::memcpy(&event.element, &element, sizeof element);
    return calls([&] { ibv_ack_async_event(&event); });
  };
  EXPECT_EQ(acknowledged(IBV_EVENT_CQ_ERR, record().cq), 1);
  EXPECT_EQ(acknowledged(IBV_EVENT_SRQ_ERR, record().srq), 1);
  EXPECT_EQ(acknowledged(IBV_EVENT_SRQ_LIMIT_REACHED, record().srq), 1);
  EXPECT_EQ(acknowledged(IBV_EVENT_WQ_FATAL, record().wq), 1);
  for (auto type : {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR,
                    IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED, IBV_EVENT_PATH_MIG,
                    IBV_EVENT_PATH_MIG_ERR, IBV_EVENT_QP_LAST_WQE_REACHED}) {
    EXPECT_EQ(acknowledged(type, record().qp), 1) << type;
  }
  // A port's number is no pointer.
  EXPECT_EQ(acknowledged(IBV_EVENT_PORT_ACTIVE, reinterpret_cast<void*>(1)), 1);
  EXPECT_EQ(acknowledged(IBV_EVENT_DEVICE_FATAL, nullptr), 1);
}

/// Objects of ours, to be mixed with foreign ones.
class MixedTest : public BehindTest {
 protected:
  void SetUp() override {
    BehindTest::SetUp();
    if (HasFatalFailure()) return;
    context = ibv_open_device(our_device);
    ASSERT_NE(context, nullptr);
    pd = ibv_alloc_pd(context);
    channel = ibv_create_comp_channel(context);
    cq = ibv_create_cq(context, 4, nullptr, channel, 0);
    mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    ibv_qp_init_attr init = attributes(cq);
    qp = ibv_create_qp(pd, &init);
    mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
    window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    ASSERT_TRUE(pd && channel && cq && mr && qp && mw && window);
    theirs.pd = static_cast<ibv_pd*>(record().pd);
    theirs.cq = static_cast<ibv_cq*>(record().cq);
    theirs.channel = static_cast<ibv_comp_channel*>(record().channel);
    theirs.mr = static_cast<ibv_mr*>(record().mr);
    theirs.mw = static_cast<ibv_mw*>(record().mw);
    theirs.qp = static_cast<ibv_qp*>(record().qp);
    theirs.srq = static_cast<ibv_srq*>(record().srq);
    theirs.context = static_cast<ibv_context*>(record().context);
    before = record().calls;
  }
  void TearDown() override {
    EXPECT_EQ(record().calls, before) << record().symbol;
    EXPECT_EQ(ibv_dealloc_mw(mw), 0);
    EXPECT_EQ(ibv_dealloc_mw(window), 0);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
    BehindTest::TearDown();
  }
  ibv_qp_init_attr attributes(ibv_cq* queue) {
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = queue;
    init.qp_type = IBV_QPT_RC;
    init.cap = {2, 2, 1, 1, 0};
    return init;
  }
  /// errno of a call that has to give null.
  static int refusal(const void* object) { return object == nullptr ? errno : 0; }

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mw *mw = nullptr, *window = nullptr;
  struct {
    ibv_context* context;
    ibv_pd* pd;
    ibv_comp_channel* channel;
    ibv_cq* cq;
    ibv_mr* mr;
    ibv_mw* mw;
    ibv_qp* qp;
    ibv_srq* srq;
  } theirs = {};
  int before = 0;
  char buffer[64] = {};
};

TEST_F(MixedTest, QueuePairsAreOfOneLibrary) {
  ibv_qp_init_attr init = attributes(theirs.cq);
  EXPECT_EQ(refusal(ibv_create_qp(pd, &init)), EINVAL);
  init = attributes(cq);
  init.srq = theirs.srq;
  EXPECT_EQ(refusal(ibv_create_qp(pd, &init)), EINVAL);
  init = attributes(cq);
  EXPECT_EQ(refusal(ibv_create_qp(theirs.pd, &init)), EINVAL);
  init = attributes(theirs.cq);
  init.recv_cq = cq;
  EXPECT_EQ(refusal(ibv_create_qp(theirs.pd, &init)), EINVAL);
  ibv_qp_init_attr_ex extended = {};
  extended.send_cq = extended.recv_cq = theirs.cq;
  extended.qp_type = IBV_QPT_RC;
  extended.cap = {2, 2, 1, 1, 0};
  extended.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  extended.send_ops_flags = IBV_QP_EX_WITH_SEND;
  extended.pd = theirs.pd;
  EXPECT_EQ(refusal(ibv_create_qp_ex(context, &extended)), EINVAL);
}

TEST_F(MixedTest, CompletionQueuesAreOfOneLibrary) {
  EXPECT_EQ(refusal(ibv_create_cq(context, 4, nullptr, theirs.channel, 0)), EINVAL);
  EXPECT_EQ(refusal(ibv_create_cq(theirs.context, 4, nullptr, channel, 0)), EINVAL);
  ibv_cq_init_attr_ex extended = {};
  extended.cqe = 4;
  extended.channel = theirs.channel;
  EXPECT_EQ(refusal(ibv_create_cq_ex(context, &extended)), EINVAL);
  extended.channel = nullptr;
  extended.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  extended.parent_domain = theirs.pd;
  EXPECT_EQ(refusal(ibv_create_cq_ex(context, &extended)), EINVAL);
  ibv_parent_domain_init_attr domain = {};
  domain.pd = theirs.pd;
  EXPECT_EQ(refusal(ibv_alloc_parent_domain(context, &domain)), EINVAL);
}

TEST_F(MixedTest, MemoryIsOfOneLibrary) {
  errno = 0;
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, theirs.pd, nullptr, 0, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(ibv_rereg_mr(theirs.mr, IBV_REREG_MR_CHANGE_PD, pd, nullptr, 0, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EINVAL);

  ibv_mw_bind bind = {};
  bind.bind_info.mr = theirs.mr;
  EXPECT_EQ(mw->context->ops.bind_mw(qp, mw, &bind), EINVAL);
  bind.bind_info.mr = mr;
  EXPECT_EQ(ibv_bind_mw(theirs.qp, mw, &bind), EINVAL);
  EXPECT_EQ(context->ops.bind_mw(qp, theirs.mw, &bind), EINVAL);

  ibv_send_wr wr = {}, *bad = nullptr;
  wr.opcode = IBV_WR_BIND_MW;
  wr.bind_mw.mw = window;
  wr.bind_mw.rkey = ibv_inc_rkey(window->rkey);
  wr.bind_mw.bind_info.mr = theirs.mr;
  EXPECT_EQ(ibv_post_send(qp, &wr, &bad), EINVAL);
  wr.bind_mw.bind_info.mr = mr;
  ibv_mw of_type_2 = *theirs.mw;
  of_type_2.type = IBV_MW_TYPE_2;
  wr.bind_mw.mw = &of_type_2;
  EXPECT_EQ(ibv_post_send(qp, &wr, &bad), EINVAL);
}

TEST_F(MixedTest, AConnectionManagersIdTakesOnlyOurs) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in target = {};
  target.sin_family = AF_INET;
  target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  target.sin_port = htons(1);
  constexpr int kTimeoutMs = 60000;
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&target), kTimeoutMs), 0);
  ASSERT_NE(id->verbs, nullptr);
  // By its name, which one of theirs has, too.
  EXPECT_EQ(id->verbs->device, our_device);
  before = record().calls;  // the manager lists devices

  ibv_qp_init_attr init = attributes(nullptr);
  EXPECT_EQ(rdma_create_qp(id, theirs.pd, &init), -1);
  EXPECT_EQ(errno, EINVAL);
  init = attributes(theirs.cq);
  EXPECT_EQ(rdma_create_qp(id, nullptr, &init), -1);
  EXPECT_EQ(errno, EINVAL);
  init = attributes(nullptr);
  init.srq = theirs.srq;
  EXPECT_EQ(rdma_create_qp(id, nullptr, &init), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(id->qp, nullptr);
  ibv_srq_init_attr shared = {};
  shared.attr = {4, 1, 0};
  EXPECT_EQ(rdma_create_srq(id, theirs.pd, &shared), -1);
  EXPECT_EQ(errno, EINVAL);

  EXPECT_EQ(rdma_destroy_id(id), 0);
}

}  // namespace

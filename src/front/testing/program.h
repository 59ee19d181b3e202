// A program on the two libraries, with both ends of its connections: public headers only.
//
// One thread drives both ends, so that it works with either engine.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace weft::front::testing {

inline constexpr std::chrono::seconds kPatience{20};

/// Calls `done` until it is true; false when patience ends.
inline bool eventually(const std::function<bool()>& done) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > until) return false;
  }
  return true;
}

/// One end of a connection: an id with a QP, one CQ for everything, and registered memory.
struct End {
  static constexpr std::size_t kOctets = 64 * 1024;
  static constexpr int kEverything =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
      IBV_ACCESS_REMOTE_ATOMIC;

  rdma_cm_id* id = nullptr;
  ibv_cq* cq = nullptr;
  ibv_cq_ex* cq_ex = nullptr;  ///< the same one, made by ibv_create_cq_ex
  ibv_mr* mr = nullptr;
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(kOctets);

  ibv_qp* qp() const { return id->qp; }
  std::uint64_t address(std::size_t offset = 0) const {
    return reinterpret_cast<std::uintptr_t>(memory.data()) + offset;
  }
  ibv_sge sge(std::size_t offset, std::uint32_t octets) const {
    return {address(offset), octets, mr->lkey};
  }
  void fill(std::uint8_t first, std::size_t offset = 0, std::size_t octets = kOctets) {
    std::iota(memory.begin() + static_cast<std::ptrdiff_t>(offset),
              memory.begin() + static_cast<std::ptrdiff_t>(offset + octets), first);
  }
  std::string_view text(std::size_t offset, std::size_t octets) const {
    return {reinterpret_cast<const char*>(memory.data()) + offset, octets};
  }
  void put(std::string_view text, std::size_t offset = 0) {
    std::memcpy(memory.data() + offset, text.data(), text.size());
  }

  int post(ibv_send_wr wr) {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp(), &wr, &bad);
  }
  int send(std::uint64_t wr_id, std::vector<ibv_sge> sges, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = flags;
    wr.sg_list = sges.data();
    wr.num_sge = static_cast<int>(sges.size());
    return post(wr);
  }
  int rdma(std::uint64_t wr_id, ibv_wr_opcode opcode, std::vector<ibv_sge> sges,
           std::uint64_t remote, std::uint32_t rkey, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.opcode = opcode;
    wr.send_flags = flags;
    wr.sg_list = sges.data();
    wr.num_sge = static_cast<int>(sges.size());
    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey = rkey;
    return post(wr);
  }
  int invalidate(std::uint64_t wr_id, ibv_wr_opcode opcode, std::uint32_t rkey) {
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.invalidate_rkey = rkey;
    return post(wr);
  }
  int receive(std::uint64_t wr_id, std::vector<ibv_sge> sges) {
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = wr_id;
    wr.sg_list = sges.data();
    wr.num_sge = static_cast<int>(sges.size());
    return ibv_post_recv(qp(), &wr, &bad);
  }

  /// The next `count` completions; fewer after a failure.
  std::vector<ibv_wc> complete(std::size_t count) {
    std::vector<ibv_wc> all;
    EXPECT_TRUE(eventually([&] {
      ibv_wc wc;
      const int found = ibv_poll_cq(cq, 1, &wc);
      EXPECT_GE(found, 0);
      if (found > 0) all.push_back(wc);
      return all.size() >= count;
    })) << all.size() << " of " << count << " completions";
    return all;
  }
  /// The next completion, which has to be this one.
  ibv_wc complete(std::uint64_t wr_id, ibv_wc_opcode opcode) {
    const auto found = complete(1);
    if (found.empty()) return {};
    EXPECT_EQ(found[0].status, IBV_WC_SUCCESS) << ibv_wc_status_str(found[0].status);
    EXPECT_EQ(found[0].wr_id, wr_id);
    EXPECT_EQ(found[0].opcode, opcode);
    EXPECT_EQ(found[0].qp_num, qp()->qp_num);
    return found[0];
  }
  ibv_qp_state state() const {
    ibv_qp_attr attr;
    ibv_qp_init_attr init;
    EXPECT_EQ(ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
  }
  int move_to(ibv_qp_state target) {
    ibv_qp_attr attr{};
    attr.qp_state = target;
    return ibv_modify_qp(id->qp, &attr, IBV_QP_STATE);
  }
};

struct EndOptions {
  std::uint32_t depth = 64;
  std::uint32_t sges = 4;
  std::uint32_t inline_octets = 64;
  std::uint64_t send_ops = 0;          ///< not 0: with the ibv_wr_* calls
  ibv_comp_channel* channel = nullptr;
  ibv_srq* srq = nullptr;
};

/// The address families that every test is run over.
inline const auto kFamilies = ::testing::Values(AF_INET, AF_INET6);
inline std::string family_name(const ::testing::TestParamInfo<int>& info) {
  return info.param == AF_INET ? "IPv4" : "IPv6";
}
/// 127.0.0.1 or ::1.
inline sockaddr_storage loopback_of(int family, std::uint16_t port) {
  sockaddr_storage address{};
  address.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address);
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    v4.sin_port = htons(port);
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
    v6.sin6_addr = in6addr_loopback;
    v6.sin6_port = htons(port);
  }
  return address;
}
/// False where IPv6 is switched off.
inline bool has_family(int family) {
  sockaddr_storage address = loopback_of(family, 0);
  const int fd = ::socket(family, SOCK_STREAM, 0);
  const socklen_t octets = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  const bool has = fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), octets) == 0;
  if (fd >= 0) ::close(fd);
  return has;
}

class Program : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!has_family(GetParam())) GTEST_SKIP() << "no IPv6 here";
    channel = rdma_create_event_channel();
    ASSERT_NE(channel, nullptr);
    ASSERT_EQ(rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP), 0);
    sockaddr_storage any_port = loopback(0);
    ASSERT_EQ(rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&any_port)), 0);
    ASSERT_EQ(rdma_listen(listener, 8), 0);
  }
  void TearDown() override {
    drop(client);
    drop(server);
    if (listener != nullptr) {
      EXPECT_EQ(rdma_destroy_id(listener), 0);
    }
    if (channel != nullptr) rdma_destroy_event_channel(channel);
  }

  static sockaddr_storage loopback(std::uint16_t port) { return loopback_of(GetParam(), port); }

  struct Seen {
    rdma_cm_event_type type;
    int status;
    rdma_cm_id* id;
    std::string data;
  };
  Seen next_event() {
    rdma_cm_event* event = nullptr;
    EXPECT_EQ(rdma_get_cm_event(channel, &event), 0) << errno;
    if (event == nullptr) return {};
    Seen seen{event->event, event->status, event->id, {}};
    if (event->param.conn.private_data != nullptr) {
      seen.data.assign(static_cast<const char*>(event->param.conn.private_data),
                       event->param.conn.private_data_len);
    }
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    return seen;
  }
  Seen expect(rdma_cm_event_type type) {
    const Seen seen = next_event();
    EXPECT_STREQ(rdma_event_str(seen.type), rdma_event_str(type)) << seen.status;
    return seen;
  }
  /// One such event for each of the two, in either order.
  void expect_on_both(rdma_cm_event_type type) {
    const rdma_cm_id* first = expect(type).id;
    const rdma_cm_id* second = expect(type).id;
    EXPECT_TRUE((first == client.id && second == server.id) ||
                (first == server.id && second == client.id));
  }

  static rdma_conn_param parameters(std::string_view data = {}) {
    rdma_conn_param param{};
    param.responder_resources = 4;
    param.initiator_depth = 4;
    param.retry_count = 7;
    param.rnr_retry_count = 7;
    param.private_data = data.data();
    param.private_data_len = static_cast<std::uint8_t>(data.size());
    return param;
  }

  /// Memory, CQ and QP for an id that has a device.
  static void equip(End& end, const EndOptions& options = {}) {
    ibv_cq_init_attr_ex cq{};
    cq.cqe = 2 * options.depth;
    cq.channel = options.channel;
    cq.wc_flags =
        unsigned{IBV_WC_STANDARD_FLAGS} | unsigned{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
    end.cq_ex = ibv_create_cq_ex(end.id->verbs, &cq);
    ASSERT_NE(end.cq_ex, nullptr) << errno;
    end.cq = ibv_cq_ex_to_cq(end.cq_ex);
    end.mr = ibv_reg_mr(end.id->pd, end.memory.data(), end.memory.size(), End::kEverything);
    ASSERT_NE(end.mr, nullptr) << errno;
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = end.cq;
    attr.srq = options.srq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {options.depth, options.srq != nullptr ? 0 : options.depth, options.sges,
                options.sges, options.inline_octets};
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr.pd = end.id->pd;
    if (options.send_ops != 0) {
      attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      attr.send_ops_flags = options.send_ops;
    }
    ASSERT_EQ(rdma_create_qp_ex(end.id, &attr), 0) << errno;
  }
  static void drop(End& end) {
    if (end.id == nullptr) return;
    if (end.id->qp != nullptr) {
      EXPECT_EQ(ibv_destroy_qp(end.id->qp), 0);
    }
    end.id->qp = nullptr;
    if (end.cq != nullptr) {
      EXPECT_EQ(ibv_destroy_cq(end.cq), 0);
    }
    if (end.mr != nullptr) {
      EXPECT_EQ(ibv_dereg_mr(end.mr), 0);
    }
    EXPECT_EQ(rdma_destroy_id(end.id), 0);
    end.id = nullptr;
    end.cq = nullptr;
    end.mr = nullptr;
  }

  /// A new client id with address and route.
  void resolve(End& end) {
    ASSERT_EQ(rdma_create_id(channel, &end.id, nullptr, RDMA_PS_TCP), 0);
    sockaddr_storage target = loopback(ntohs(rdma_get_src_port(listener)));
    ASSERT_EQ(rdma_resolve_addr(end.id, nullptr, reinterpret_cast<sockaddr*>(&target), 2000), 0);
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    ASSERT_EQ(rdma_resolve_route(end.id, 2000), 0);
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  }
  /// The client asks, and the server has its id; both have QPs.
  void request(const EndOptions& options = {}, const EndOptions& server_options = {}) {
    ASSERT_NO_FATAL_FAILURE(resolve(client));
    ASSERT_NO_FATAL_FAILURE(equip(client, options));
    rdma_conn_param param = parameters();
    ASSERT_EQ(rdma_connect(client.id, &param), 0) << errno;
    server.id = expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
    ASSERT_NO_FATAL_FAILURE(equip(server, server_options));
  }
  void connect(const EndOptions& options = {}, const EndOptions& server_options = {}) {
    ASSERT_NO_FATAL_FAILURE(request(options, server_options));
    rdma_conn_param param = parameters();
    ASSERT_EQ(rdma_accept(server.id, &param), 0) << errno;
    expect_on_both(RDMA_CM_EVENT_ESTABLISHED);
  }

  rdma_event_channel* channel = nullptr;
  rdma_cm_id* listener = nullptr;
  End client, server;
};

}  // namespace weft::front::testing

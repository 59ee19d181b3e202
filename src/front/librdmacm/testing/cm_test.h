// The fixture of the connection manager's tests: ids, events and QPs that read as a dialogue.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "front/librdmacm/address.h"
#include "front/librdmacm/testing/fake_rnic.h"

namespace weft::front::cm::testing {

/// The process has one device for all its tests; each test leaves it empty.
class CMTest : public ::testing::Test {
 protected:
  explicit CMTest(bool run_inline = false) {
    if (fake_runtime().fake == nullptr) fake_runtime().fake = new FakeDevice(run_inline);
    channel = rdma_create_event_channel();
  }
  ~CMTest() override {
    if (channel != nullptr) rdma_destroy_event_channel(channel);
    EXPECT_EQ(verbs_counts(), VerbsCounts{});
    EXPECT_EQ(rnic().listeners(), 0u);
    rnic().connect_fails_with = 0;
    rnic().ends_with = 0;
    rnic().hold_requests = false;
    rnic().tell_depths = true;
    rnic().commands.clear();
    rnic().connections.clear();
    rnic().rejects = 0;
    set_persona_ib(false);
  }

  static FakeDevice& rnic() { return *fake_runtime().fake; }

  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }
  static sockaddr* plain(sockaddr_in& address) { return reinterpret_cast<sockaddr*>(&address); }

  rdma_cm_id* make_id(void* context = nullptr) {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(rdma_create_id(channel, &id, context, RDMA_PS_TCP), 0);
    return id;
  }

  /// Takes the next event, which has to be this one.
  rdma_cm_event* expect(rdma_cm_event_type type, int status = 0) {
    rdma_cm_event* event = nullptr;
    EXPECT_EQ(rdma_get_cm_event(channel, &event), 0) << errno;
    EXPECT_STREQ(rdma_event_str(event->event), rdma_event_str(type));
    EXPECT_EQ(event->status, status);
    return event;
  }
  rdma_cm_id* expect_and_ack(rdma_cm_event_type type, int status = 0) {
    rdma_cm_event* event = expect(type, status);
    rdma_cm_id* id = event->id;
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    return id;
  }

  /// A listener on a free port of 127.0.0.1.
  rdma_cm_id* listen(int backlog = 3, void* context = nullptr) {
    rdma_cm_id* id = make_id(context);
    sockaddr_in any_port = loopback(0);
    EXPECT_EQ(rdma_bind_addr(id, plain(any_port)), 0) << errno;
    EXPECT_EQ(rdma_listen(id, backlog), 0) << errno;
    return id;
  }
  std::uint16_t port(rdma_cm_id* id) { return ntohs(rdma_get_src_port(id)); }

  rdma_cm_id* resolve(std::uint16_t to_port, void* context = nullptr) {
    rdma_cm_id* id = make_id(context);
    sockaddr_in target = loopback(to_port);
    EXPECT_EQ(rdma_resolve_addr(id, nullptr, plain(target), 2000), 0) << errno;
    EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_ADDR_RESOLVED), id);
    EXPECT_EQ(rdma_resolve_route(id, 2000), 0);
    EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_ROUTE_RESOLVED), id);
    return id;
  }

  static ibv_qp_init_attr qp_attributes() {
    ibv_qp_init_attr attributes{};
    attributes.cap = {16, 16, 1, 1, 0};
    attributes.qp_type = IBV_QPT_RC;
    return attributes;
  }
  static void create_qp(rdma_cm_id* id) {
    ibv_qp_init_attr attributes = qp_attributes();
    ASSERT_EQ(rdma_create_qp(id, nullptr, &attributes), 0) << errno;
  }

  /// `data` stays where it is.
  static rdma_conn_param parameters(std::string_view data = {}) {
    rdma_conn_param param{};
    param.responder_resources = 1;
    param.initiator_depth = 2;
    param.retry_count = 7;
    param.private_data = data.data();
    param.private_data_len = static_cast<std::uint8_t>(data.size());
    return param;
  }
  static std::string data_of(const rdma_cm_event* event) {
    return {static_cast<const char*>(event->param.conn.private_data),
            event->param.conn.private_data_len};
  }

  struct Pair {
    rdma_cm_id* active;
    rdma_cm_id* passive;
  };
  /// A client and a server id that are connected, with QPs, and no event left.
  Pair connected(rdma_cm_id* listener) {
    Pair pair{resolve(port(listener)), nullptr};
    create_qp(pair.active);
    rdma_conn_param param = parameters();
    EXPECT_EQ(rdma_connect(pair.active, &param), 0) << errno;
    pair.passive = expect_and_ack(RDMA_CM_EVENT_CONNECT_REQUEST);
    create_qp(pair.passive);
    EXPECT_EQ(rdma_accept(pair.passive, &param), 0) << errno;
    EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_ESTABLISHED), pair.active);
    EXPECT_EQ(expect_and_ack(RDMA_CM_EVENT_ESTABLISHED), pair.passive);
    return pair;
  }
  static void destroy(rdma_cm_id* id) {
    rdma_destroy_qp(id);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }

  rdma_event_channel* channel = nullptr;
};

}  // namespace weft::front::cm::testing

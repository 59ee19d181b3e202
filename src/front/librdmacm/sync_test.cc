// Synchronous ids and endpoints, addresses, options.
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "front/librdmacm/testing/cm_test.h"

namespace weft::front::cm::testing {
namespace {

using Sync = CMTest;
using Address = CMTest;

rdma_addrinfo* look_up(const char* node, const char* service, int flags) {
  rdma_addrinfo hints{};
  hints.ai_flags = flags;
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* info = nullptr;
  EXPECT_EQ(rdma_getaddrinfo(node, service, &hints, &info), 0);
  return info;
}

TEST_F(Sync, EndpointsInTheOrderOfTheExamples) {
  rdma_addrinfo* passive = look_up("127.0.0.1", "0", RAI_PASSIVE);
  rdma_cm_id* listener = nullptr;
  ibv_qp_init_attr attributes = qp_attributes();
  ASSERT_EQ(rdma_create_ep(&listener, passive, nullptr, &attributes), 0) << errno;
  ASSERT_EQ(rdma_listen(listener, 0), 0);
  std::thread server([&] {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(rdma_get_request(listener, &id), 0) << errno;
    ASSERT_NE(id->qp, nullptr);
    EXPECT_EQ(id->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_EQ(data_of(id->event), "ping");
    rdma_conn_param param = parameters("pong");
    ASSERT_EQ(rdma_accept(id, &param), 0) << errno;
    EXPECT_EQ(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(rdma_disconnect(id), 0);
    rdma_destroy_ep(id);
  });
  rdma_addrinfo* active = look_up("127.0.0.1", std::to_string(port(listener)).c_str(), 0);
  rdma_cm_id* client = nullptr;
  attributes = qp_attributes();
  ASSERT_EQ(rdma_create_ep(&client, active, nullptr, &attributes), 0) << errno;
  ASSERT_NE(client->qp, nullptr);
  rdma_conn_param param = parameters("ping");
  ASSERT_EQ(rdma_connect(client, &param), 0) << errno;
  EXPECT_EQ(data_of(client->event), "pong");
  EXPECT_EQ(rdma_disconnect(client), 0);
  EXPECT_EQ(client->event->event, RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(rdma_disconnect(client), 0) << "a second time does not wait for ever";
  server.join();
  rdma_destroy_ep(client);
  rdma_destroy_ep(listener);
  rdma_freeaddrinfo(active);
  rdma_freeaddrinfo(passive);
}

TEST_F(Sync, APassiveEndpointHasThePDOfItsRequests) {
  rdma_cm_id* client = resolve(9);
  ibv_pd* pd = ibv_alloc_pd(client->verbs);
  ibv_pd* other = ibv_alloc_pd(client->verbs);
  destroy(client);
  rdma_addrinfo* passive = look_up("127.0.0.1", "0", RAI_PASSIVE);
  // Of rdma_create_ep, of the program itself, or of nobody.
  for (ibv_pd* const given : {pd, static_cast<ibv_pd*>(nullptr)}) {
    rdma_cm_id* listener = nullptr;
    ibv_qp_init_attr attributes = qp_attributes();
    ASSERT_EQ(rdma_create_ep(&listener, passive, given, &attributes), 0) << errno;
    EXPECT_EQ(listener->pd, given);
    ASSERT_EQ(rdma_listen(listener, 0), 0);
    for (ibv_pd* const later : {given, other}) {
      listener->pd = later;
      client = resolve(port(listener));
      create_qp(client);
      ASSERT_EQ(rdma_connect(client, nullptr), 0);
      rdma_cm_id* request = nullptr;
      ASSERT_EQ(rdma_get_request(listener, &request), 0) << errno;
      EXPECT_EQ(request->qp->pd, later != nullptr ? later : client->pd);
      EXPECT_EQ(request->pd, request->qp->pd);
      rdma_destroy_ep(request);
      expect_and_ack(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
      destroy(client);
    }
    rdma_destroy_ep(listener);
  }
  ibv_dealloc_pd(pd);
  ibv_dealloc_pd(other);
  rdma_freeaddrinfo(passive);
}

TEST_F(Sync, ListenerMayGoBeforeARequestThatKeepsItsEvent) {
  rdma_addrinfo* passive = look_up("127.0.0.1", "0", RAI_PASSIVE);
  rdma_cm_id* listener = nullptr;
  ASSERT_EQ(rdma_create_ep(&listener, passive, nullptr, nullptr), 0);
  ASSERT_EQ(rdma_listen(listener, 1), 0);
  rdma_cm_id* client = resolve(port(listener));
  create_qp(client);
  ASSERT_EQ(rdma_connect(client, nullptr), 0);
  rdma_cm_id* request = nullptr;
  ASSERT_EQ(rdma_get_request(listener, &request), 0);
  EXPECT_EQ(request->qp, nullptr) << "no attributes, no QP";
  rdma_destroy_ep(listener);
  rdma_destroy_ep(request);
  expect_and_ack(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
  destroy(client);
  rdma_freeaddrinfo(passive);
}

TEST_F(Sync, ErrorsBecomeErrno) {
  rdma_addrinfo* active = look_up("127.0.0.1", "9", 0);
  rdma_cm_id* client = nullptr;
  ibv_qp_init_attr attributes = qp_attributes();
  fail_next_qp(ENOMEM);
  EXPECT_EQ(rdma_create_ep(&client, active, nullptr, &attributes), -1);
  EXPECT_EQ(errno, ENOMEM);
  ASSERT_EQ(rdma_create_ep(&client, active, nullptr, &attributes), 0);
  EXPECT_EQ(rdma_connect(client, nullptr), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  rdma_destroy_ep(client);
  rnic().connect_fails_with = ETIMEDOUT;
  ASSERT_EQ(rdma_create_ep(&client, active, nullptr, &attributes), 0);
  EXPECT_EQ(rdma_connect(client, nullptr), -1);
  EXPECT_EQ(errno, ETIMEDOUT);
  rdma_destroy_ep(client);
  rdma_freeaddrinfo(active);
  rdma_cm_id* asynchronous = make_id();
  EXPECT_EQ(rdma_get_request(asynchronous, &client), -1);
  EXPECT_EQ(errno, EINVAL);
  rdma_destroy_id(asynchronous);
}

TEST_F(Sync, AReasonOfInfiniBandIsNoErrno) {
  set_persona_ib(true);
  rdma_addrinfo* active = look_up("127.0.0.1", "9", 0);
  rdma_cm_id* client = nullptr;
  ibv_qp_init_attr attributes = qp_attributes();
  ASSERT_EQ(rdma_create_ep(&client, active, nullptr, &attributes), 0);
  EXPECT_EQ(rdma_connect(client, nullptr), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  EXPECT_EQ(client->event->status, 8);
  rdma_destroy_ep(client);
  rdma_freeaddrinfo(active);
}

TEST_F(Address, BindingReservesAndChecks) {
  rdma_cm_id* id = make_id();
  sockaddr_in foreign = loopback(0);
  foreign.sin_addr.s_addr = inet_addr("192.0.2.1");
  EXPECT_EQ(rdma_bind_addr(id, plain(foreign)), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);

  const int tcp = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in taken = loopback(0);
  socklen_t octets = sizeof taken;
  ASSERT_EQ(bind(tcp, plain(taken), octets), 0);
  ASSERT_EQ(::listen(tcp, 1), 0);
  ASSERT_EQ(getsockname(tcp, plain(taken), &octets), 0);
  EXPECT_EQ(rdma_bind_addr(id, plain(taken)), -1) << "plain TCP has it";
  EXPECT_EQ(errno, EADDRINUSE);
  close(tcp);

  EXPECT_EQ(rdma_bind_addr(id, plain(taken)), 0) << "the id is as before";
  EXPECT_EQ(rdma_bind_addr(id, plain(taken)), -1) << "only once";
  EXPECT_EQ(errno, EINVAL);
  const int other = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(bind(other, plain(taken), octets), -1) << "reserved from here on";
  close(other);
  rdma_cm_id* second = make_id();
  ASSERT_EQ(rdma_bind_addr(second, plain(taken)), 0);
  ASSERT_EQ(rdma_listen(id, 1), 0);
  EXPECT_EQ(rdma_listen(second, 1), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  EXPECT_EQ(rdma_listen(id, 1), -1);
  EXPECT_EQ(errno, EINVAL);
  rdma_destroy_id(id);
  EXPECT_EQ(rdma_listen(second, 1), 0) << "free again";
  rdma_destroy_id(second);
}

TEST_F(Address, AFamilyThatIsNotThereIsInvalid) {
  rdma_cm_id* id = make_id();
  sockaddr_storage address{};
  for (const int family : {AF_UNSPEC, AF_UNIX, AF_IB}) {
    address.ss_family = static_cast<sa_family_t>(family);
    EXPECT_EQ(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)), -1);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address), 1), -1);
    EXPECT_EQ(errno, EINVAL);
  }
  rdma_destroy_id(id);
}

TEST_F(Address, WildcardListenerHasNoDevice) {
  for (const int family : {AF_INET, AF_INET6}) {
    rdma_cm_id* id = make_id();
    sockaddr_storage any{};
    any.ss_family = static_cast<sa_family_t>(family);
    ASSERT_EQ(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&any)), 0) << errno;
    EXPECT_EQ(id->verbs, nullptr);
    EXPECT_NE(rdma_get_src_port(id), 0);
    ASSERT_EQ(rdma_listen(id, 1), 0);
    if (family == AF_INET) {
      Pair pair = connected(id);
      EXPECT_NE(pair.passive->verbs, nullptr) << "the device its address is on";
      destroy(pair.active);
      expect_and_ack(RDMA_CM_EVENT_DISCONNECTED);
      destroy(pair.passive);
    }
    rdma_destroy_id(id);
  }
  rdma_cm_id* never_bound = make_id();
  EXPECT_EQ(rdma_listen(never_bound, 1), 0);
  EXPECT_NE(rdma_get_src_port(never_bound), 0);
  rdma_destroy_id(never_bound);
}

TEST_F(Address, BothFamiliesOnOnePort) {
  rdma_cm_id* v4 = make_id();
  sockaddr_in any{};
  any.sin_family = AF_INET;
  ASSERT_EQ(rdma_bind_addr(v4, plain(any)), 0);
  ASSERT_EQ(rdma_listen(v4, 1), 0);
  rdma_cm_id* v6 = make_id();
  int yes = 1;
  ASSERT_EQ(rdma_set_option(v6, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof yes), 0);
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = rdma_get_src_port(v4);
  EXPECT_EQ(rdma_bind_addr(v6, reinterpret_cast<sockaddr*>(&any6)), 0) << errno;
  EXPECT_EQ(rdma_listen(v6, 1), 0);
  EXPECT_EQ(rdma_set_option(v6, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof yes), -1);
  rdma_destroy_id(v4);
  rdma_destroy_id(v6);
}

TEST_F(Address, ResolutionFailsByEvent) {
  rdma_cm_id* id = make_id();
  sockaddr_in group = loopback(7);
  group.sin_addr.s_addr = inet_addr("255.255.255.255");
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, plain(group), 1), 0);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
  EXPECT_EQ(event->event, RDMA_CM_EVENT_ADDR_ERROR);
  EXPECT_LT(event->status, 0);
  rdma_ack_cm_event(event);
  EXPECT_EQ(id->verbs, nullptr);
  sockaddr_in target = loopback(7);
  EXPECT_EQ(rdma_resolve_addr(id, nullptr, plain(target), 1), 0) << "another target may do";
  expect_and_ack(RDMA_CM_EVENT_ADDR_RESOLVED);
  rdma_destroy_id(id);
}

TEST_F(Address, ResolutionKeepsTheSourceAskedFor) {
  rdma_cm_id* id = make_id();
  sockaddr_in source = loopback(0);
  source.sin_addr.s_addr = inet_addr("127.0.0.1");
  sockaddr_in target = loopback(7);
  target.sin_addr.s_addr = htonl(INADDR_ANY);
  ASSERT_EQ(rdma_resolve_addr(id, plain(source), plain(target), 1), 0) << errno;
  expect_and_ack(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(id->route.addr.src_sin.sin_addr.s_addr, inet_addr("127.0.0.1"));
  EXPECT_EQ(id->route.addr.dst_sin.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  EXPECT_EQ(rdma_resolve_addr(id, nullptr, plain(target), 1), -1) << "resolved already";
  rdma_destroy_id(id);

  rdma_cm_id* v6 = make_id();
  sockaddr_in6 target6{};
  target6.sin6_family = AF_INET6;
  target6.sin6_addr = in6addr_loopback;
  EXPECT_EQ(rdma_resolve_addr(v6, plain(source), reinterpret_cast<sockaddr*>(&target6), 1), -1);
  EXPECT_EQ(errno, EINVAL);
  rdma_destroy_id(v6);
}

TEST_F(Address, MappedIPv4IsShownAsIPv4) {
  rdma_cm_id* listener = listen();
  rdma_cm_id* client = make_id();
  sockaddr_in6 mapped{};
  mapped.sin6_family = AF_INET6;
  mapped.sin6_port = htons(port(listener));
  ASSERT_EQ(inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr), 1);
  ASSERT_EQ(rdma_resolve_addr(client, nullptr, reinterpret_cast<sockaddr*>(&mapped), 1), 0);
  expect_and_ack(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(rdma_get_peer_addr(client)->sa_family, AF_INET);
  ASSERT_EQ(rdma_resolve_route(client, 1), 0);
  expect_and_ack(RDMA_CM_EVENT_ROUTE_RESOLVED);
  create_qp(client);
  // What a listener for both families reports of an IPv4 peer.
  rnic().show_mapped = true;
  ASSERT_EQ(rdma_connect(client, nullptr), 0);
  rnic().show_mapped = false;
  rdma_cm_id* server = expect_and_ack(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(rdma_get_local_addr(server)->sa_family, AF_INET);
  EXPECT_EQ(server->route.addr.src_sin.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  EXPECT_EQ(port(server), port(listener));
  rdma_destroy_id(server);
  expect_and_ack(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
  destroy(client);
  rdma_destroy_id(listener);
}

TEST_F(Address, DatagramsAndMulticastAreRefused) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_UDP), 0);
  EXPECT_EQ(id->qp_type, IBV_QPT_UD);
  sockaddr_in target = loopback(7);
  EXPECT_EQ(rdma_resolve_addr(id, nullptr, plain(target), 1), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(rdma_bind_addr(id, plain(target)), -1);
  EXPECT_EQ(rdma_join_multicast(id, plain(target), nullptr), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(rdma_join_multicast_ex(id, nullptr, nullptr), -1);
  EXPECT_EQ(rdma_leave_multicast(id, plain(target)), -1);
  rdma_destroy_id(id);
  EXPECT_EQ(rdma_create_id(channel, &id, nullptr, static_cast<rdma_port_space>(3)), -1);
}

TEST_F(Address, OptionsCheckNameAndSize) {
  rdma_cm_id* id = make_id();
  const auto set = [&](int level, int name, size_t octets) {
    int value = 1;
    return rdma_set_option(id, level, name, &value, octets) == 0 ? 0 : errno;
  };
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 4), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 4), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 4), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 1), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, 99, 4), ENOSYS);
  EXPECT_EQ(set(RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, 4), ENOSYS);
  ibv_ece ece{};
  EXPECT_EQ(rdma_set_local_ece(id, &ece), -1) << "no vendor";
  ece.vendor_id = 1;
  EXPECT_EQ(rdma_set_local_ece(id, &ece), 0);
  EXPECT_EQ(rdma_get_remote_ece(id, &ece), 0);
  EXPECT_EQ(ece.vendor_id, 0u);
  rdma_destroy_id(id);
}

TEST_F(Address, TheAckTimeoutIsSeenAtTheQP) {
  rdma_cm_id* listener = listen();
  std::uint8_t exponent = 21;
  const auto set = [&](rdma_cm_id* id) {
    return rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent, 1);
  };
  rdma_cm_id* id = resolve(port(listener));
  EXPECT_EQ(set(id), 0);
  create_qp(id);
  EXPECT_EQ(last_timeout(), 21) << "set before there was a QP";
  exponent = 17;
  EXPECT_EQ(set(id), 0);
  EXPECT_EQ(last_timeout(), 17) << "and behind it";
  destroy(id);
  rdma_destroy_id(listener);
}

TEST_F(Address, DevicesAreOpenedOnce) {
  int count = 0;
  ibv_context** list = rdma_get_devices(&count);
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(list[1], nullptr);
  rdma_cm_id* id = resolve(9);
  EXPECT_EQ(id->verbs, list[0]);
  rdma_free_devices(list);
  rdma_destroy_id(id);
}

TEST_F(Address, AddressLookUp) {
  rdma_addrinfo* info = look_up(nullptr, "7174", RAI_PASSIVE);
  EXPECT_EQ(info->ai_port_space, RDMA_PS_TCP);
  EXPECT_EQ(info->ai_qp_type, IBV_QPT_RC);
  EXPECT_TRUE((info->ai_flags & RAI_PASSIVE) != 0);
  ASSERT_NE(info->ai_src_addr, nullptr);
  EXPECT_TRUE(is_any(*info->ai_src_addr));
  EXPECT_EQ(port_of(*info->ai_src_addr), 7174);
  EXPECT_EQ(info->ai_dst_addr, nullptr);
  rdma_freeaddrinfo(info);

  rdma_addrinfo hints{};
  hints.ai_flags = RAI_NUMERICHOST | RAI_FAMILY;
  hints.ai_family = AF_INET6;
  sockaddr_in6 source{};
  source.sin6_family = AF_INET6;
  hints.ai_src_addr = reinterpret_cast<sockaddr*>(&source);
  hints.ai_src_len = sizeof source;
  ASSERT_EQ(rdma_getaddrinfo("::1", "80", &hints, &info), 0);
  EXPECT_EQ(info->ai_family, AF_INET6);
  EXPECT_EQ(info->ai_src_len, sizeof source);
  EXPECT_EQ(port_of(*info->ai_dst_addr), 80);
  rdma_freeaddrinfo(info);
  EXPECT_NE(rdma_getaddrinfo("not an address", "80", &hints, &info), 0);

  hints.ai_family = AF_IB;
  EXPECT_EQ(rdma_getaddrinfo("127.0.0.1", "80", &hints, &info), EAI_FAMILY) << "demanded";
  hints.ai_flags = RAI_NUMERICHOST;
  ASSERT_EQ(rdma_getaddrinfo("127.0.0.1", "80", &hints, &info), 0);
  EXPECT_EQ(info->ai_family, AF_INET);
  rdma_freeaddrinfo(info);
  EXPECT_EQ(rdma_getaddrinfo(nullptr, nullptr, nullptr, &info), -1);
  EXPECT_EQ(errno, EINVAL);
  ASSERT_EQ(rdma_getaddrinfo("127.0.0.1", nullptr, nullptr, &info), 0);
  EXPECT_EQ(info->ai_qp_type, IBV_QPT_RC);
  EXPECT_EQ(info->ai_port_space, RDMA_PS_TCP);
  rdma_freeaddrinfo(info);
}

}  // namespace
}  // namespace weft::front::cm::testing

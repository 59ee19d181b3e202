/* Socket options and IPv6. */
#define _GNU_SOURCE
#include "surface.h"

#include <netinet/tcp.h>
#include <sys/time.h>

static void round_trip(int fd, int level, int name, const char* what, int value) {
  socklen_t size = sizeof value;
  char label[100];
  snprintf(label, sizeof label, "set %s", what);
  say(label, setsockopt(fd, level, name, &value, sizeof value));
  value = -1;
  snprintf(label, sizeof label, "get %s", what);
  say(label, getsockopt(fd, level, name, &value, &size));
  say("  value", value);
  say("  size", size);
}
#define ROUND_TRIP(fd, level, name, value) round_trip(fd, level, name, #name, value)

static void each_option(int fd) {
  ROUND_TRIP(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  ROUND_TRIP(fd, SOL_SOCKET, SO_REUSEPORT, 1);
  ROUND_TRIP(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  ROUND_TRIP(fd, SOL_SOCKET, SO_OOBINLINE, 1);
  ROUND_TRIP(fd, SOL_SOCKET, SO_RCVLOWAT, 1);
  ROUND_TRIP(fd, SOL_SOCKET, SO_PRIORITY, 3);
  ROUND_TRIP(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  ROUND_TRIP(fd, IPPROTO_TCP, TCP_NODELAY, 0);
  ROUND_TRIP(fd, IPPROTO_TCP, TCP_CORK, 0);
  ROUND_TRIP(fd, IPPROTO_TCP, TCP_QUICKACK, 1);
  ROUND_TRIP(fd, IPPROTO_TCP, TCP_KEEPIDLE, 77);
  ROUND_TRIP(fd, IPPROTO_TCP, TCP_KEEPINTVL, 7);
  ROUND_TRIP(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  ROUND_TRIP(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 5000);
  ROUND_TRIP(fd, IPPROTO_IP, IP_TOS, 0x10);
  ROUND_TRIP(fd, IPPROTO_IP, IP_TTL, 33);
  ROUND_TRIP(fd, SOL_SOCKET, 9999, 1);
  ROUND_TRIP(fd, IPPROTO_TCP, 9999, 1);
  ROUND_TRIP(fd, 7777, 1, 1);
  ROUND_TRIP(fd, SOL_SOCKET, SO_TYPE, 1);
  ROUND_TRIP(fd, SOL_SOCKET, SO_PROTOCOL, 1);
  ROUND_TRIP(fd, SOL_SOCKET, SO_DOMAIN, 1);
  ROUND_TRIP(fd, SOL_SOCKET, SO_ERROR, 0);
  ROUND_TRIP(fd, SOL_SOCKET, SO_ACCEPTCONN, 0);
  int value = 1;
  socklen_t size = sizeof value;
  SAY(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, 1));
  SAY(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, NULL, sizeof value));
  SAY(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, NULL, &size));
  SAY(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, NULL));
}

static void of_a_connection(void) {
  struct pair pair = open_ipv4_pair();
  each_option(pair.client);
  close_pair(&pair);
}
static void of_a_listener(void) {
  const int fd = listen_on(AF_INET);
  each_option(fd);
  close(fd);
}
static void of_a_fresh_socket(void) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  each_option(fd);
  close(fd);
}

/* What a listener was told its connections have too. */
static void accepted_ones_inherit(void) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1, idle = 55;
  const struct timeval limit = {3, 0};
  SAY(setsockopt(listener, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on));
  SAY(setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  SAY(setsockopt(listener, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle));
  SAY(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
  struct sockaddr_storage name = loopback(0);
  SAY(bind(listener, (struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  SAY(listen(listener, 5));
  name = name_of(listener);
  const int client = connect_to(&name);
  const int server = accept(listener, NULL, NULL);
  int value = -1;
  socklen_t size = sizeof value;
  SAY(getsockopt(server, SOL_SOCKET, SO_KEEPALIVE, &value, &size));
  SAY(value);
  SAY(getsockopt(server, IPPROTO_TCP, TCP_NODELAY, &value, &size));
  SAY(value);
  SAY(getsockopt(server, IPPROTO_TCP, TCP_KEEPIDLE, &value, &size));
  SAY(value);
  struct timeval got = {0, 0};
  size = sizeof got;
  SAY(getsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &got, &size));
  SAY(got.tv_sec);
  close(client), close(server), close(listener);
}

static void times(void) {
  struct pair pair = open_ipv4_pair();
  char octets[65536];
  struct timeval limit = {0, 60000}, got = {9, 9};
  socklen_t size = sizeof got;
  SAY(setsockopt(pair.client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
  SAY(getsockopt(pair.client, SOL_SOCKET, SO_RCVTIMEO, &got, &size));
  SAY(got.tv_sec);
  SAY(got.tv_usec);
  SAY(recv(pair.client, octets, 1, 0));
  SAY(recv(pair.client, octets, 1, MSG_WAITALL));
  SAY(send(pair.server, "x", 1, 0));
  SAY(recv(pair.client, octets, 5, MSG_WAITALL));
  SAY(setsockopt(pair.client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
  ssize_t sent = 1;
  while (sent > 0) sent = send(pair.client, octets, sizeof octets, 0);
  SAY(sent);
  limit.tv_usec = 1000000;
  SAY(setsockopt(pair.client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
  SAY(setsockopt(pair.client, SOL_SOCKET, SO_RCVTIMEO, &limit, 3));
  limit.tv_usec = 50000;
  SAY(setsockopt(pair.listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
  SAY(accept(pair.listener, NULL, NULL));
  close_pair(&pair);
}

static void buffers(void) {
  struct pair pair = open_ipv4_pair();
  int size = 50000;
  socklen_t octets = sizeof size;
  SAY(setsockopt(pair.client, SOL_SOCKET, SO_SNDBUF, &size, sizeof size));
  SAY(getsockopt(pair.client, SOL_SOCKET, SO_SNDBUF, &size, &octets));
  SAY(size);
  size = 0;
  SAY(setsockopt(pair.client, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
  SAY(getsockopt(pair.client, SOL_SOCKET, SO_RCVBUF, &size, &octets));
  SAY(size > 0);
  SAY(send_pattern(pair.server, 0, 30000));
  SAY(receive_pattern(pair.client, 0, 30000));
  close_pair(&pair);
}

static void set_one(int fd, int level, int name, const char* what, const void* value,
                    socklen_t size) {
  char label[100];
  snprintf(label, sizeof label, "set %s", what);
  say(label, setsockopt(fd, level, name, value, size));
}
static void say_one(int fd, int level, int name, const char* what) {
  unsigned char value[64] = {0};
  socklen_t size = sizeof value;
  say(what, getsockopt(fd, level, name, value, &size));
  for (socklen_t i = 0; i < size; ++i) printf(" %02x", value[i]);
  puts("");
}
#define SET(fd, level, name, type, ...) \
  set_one(fd, level, name, #name, (const type[]){__VA_ARGS__}, sizeof((const type[]){__VA_ARGS__}))
#define SAY_OPTION(fd, level, name) say_one(fd, level, name, #name)

static void set_several(int fd) {
  SET(fd, SOL_SOCKET, SO_SNDBUF, int, 30000);
  SET(fd, SOL_SOCKET, SO_RCVBUF, int, 40000);
  SET(fd, SOL_SOCKET, SO_PRIORITY, int, 2);
  SET(fd, SOL_SOCKET, SO_MARK, int, 77);
  SET(fd, SOL_SOCKET, SO_RCVLOWAT, int, 3);
  SET(fd, SOL_SOCKET, SO_LINGER, struct linger, {1, 7});
  SET(fd, SOL_SOCKET, SO_SNDTIMEO, struct timeval, {20, 0});
  SET(fd, SOL_SOCKET, SO_BINDTODEVICE, char, 'l', 'o');
  SET(fd, SOL_SOCKET, SO_MAX_PACING_RATE, int, 500 << 20);
  SET(fd, IPPROTO_TCP, TCP_CONGESTION, char, 'r', 'e', 'n', 'o');
  SET(fd, IPPROTO_TCP, TCP_CORK, int, 1);
  SET(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, int, 5000);
  SET(fd, IPPROTO_TCP, TCP_LINGER2, int, 11);
  SET(fd, IPPROTO_TCP, TCP_SYNCNT, int, 3);
  SET(fd, IPPROTO_IP, IP_TOS, int, 0x10);
  SET(fd, IPPROTO_IP, IP_TTL, int, 44);
}
static void say_several(int fd) {
  SAY_OPTION(fd, SOL_SOCKET, SO_SNDBUF);
  SAY_OPTION(fd, SOL_SOCKET, SO_RCVBUF);
  SAY_OPTION(fd, SOL_SOCKET, SO_PRIORITY);
  SAY_OPTION(fd, SOL_SOCKET, SO_MARK);
  SAY_OPTION(fd, SOL_SOCKET, SO_RCVLOWAT);
  SAY_OPTION(fd, SOL_SOCKET, SO_LINGER);
  SAY_OPTION(fd, SOL_SOCKET, SO_SNDTIMEO);
  SAY_OPTION(fd, SOL_SOCKET, SO_BINDTODEVICE);
  SAY_OPTION(fd, SOL_SOCKET, SO_MAX_PACING_RATE);
  SAY_OPTION(fd, IPPROTO_TCP, TCP_CONGESTION);
  SAY_OPTION(fd, IPPROTO_TCP, TCP_CORK);
  SAY_OPTION(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT);
  SAY_OPTION(fd, IPPROTO_TCP, TCP_LINGER2);
  SAY_OPTION(fd, IPPROTO_TCP, TCP_SYNCNT);
  SAY_OPTION(fd, IPPROTO_IP, IP_TOS);
  SAY_OPTION(fd, IPPROTO_IP, IP_TTL);
}

/* The other end of the client, which connects to the listener. */
static int meet(int listener, int client) {
  struct sockaddr_storage name = loopback(0);
  SAY(bind(listener, (struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  SAY(listen(listener, 5));
  name = name_of(listener);
  SAY(connect(client, (struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  return accept(listener, NULL, NULL);
}

/* A socket that is to connect, and one that is to listen, are told before; what they were told they
   tell again afterwards, and a connection that was accepted tells what its listener was told. */
static void told_before(void) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
  set_several(listener), set_several(client);
  SET(listener, IPPROTO_TCP, TCP_FASTOPEN, int, 5);
  SET(listener, IPPROTO_TCP, TCP_MAXSEG, int, 1111);
  const int server = meet(listener, client);
  say_several(listener), say_several(client), say_several(server);
  SAY_OPTION(listener, IPPROTO_TCP, TCP_FASTOPEN);
  SAY_OPTION(listener, IPPROTO_TCP, TCP_MAXSEG);
  close(client), close(server), close(listener);
}
static void told_before_ipv6(void) {
  const int fd = socket(AF_INET6, SOCK_STREAM, 0);
  struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
  SET(fd, IPPROTO_IPV6, IPV6_TCLASS, int, 0x20);
  SET(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, int, 9);
  SET(fd, IPPROTO_IPV6, IPV6_V6ONLY, int, 1);
  SAY(bind(fd, (struct sockaddr*)&any, sizeof any));
  SAY(listen(fd, 5));
  SAY_OPTION(fd, IPPROTO_IPV6, IPV6_TCLASS);
  SAY_OPTION(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS);
  SAY_OPTION(fd, IPPROTO_IPV6, IPV6_V6ONLY);
  close(fd);
}

/* So much and no more is under way to who does not read: two buffers of some 64 KiB, by TCP and by
   iWARP. */
static void small_buffers_hold_little(void) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
  SET(listener, SOL_SOCKET, SO_RCVBUF, int, 32768);
  SET(client, SOL_SOCKET, SO_SNDBUF, int, 32768);
  const int server = meet(listener, client);
  static char octets[8192];
  long sent = 0, part = 0;
  for (int quiet = 0; quiet < 10; ++quiet) {
    while ((part = send(client, octets, sizeof octets, MSG_DONTWAIT)) > 0) sent += part, quiet = 0;
    usleep(10000);
  }
  SAY(sent > 10000 && sent < 400000);
  close(client), close(server), close(listener);
}

static void lingering(void) {
  struct pair pair = open_ipv4_pair();
  struct linger wanted = {1, 5}, got = {9, 9};
  socklen_t octets = sizeof got;
  SAY(setsockopt(pair.client, SOL_SOCKET, SO_LINGER, &wanted, sizeof wanted));
  SAY(getsockopt(pair.client, SOL_SOCKET, SO_LINGER, &got, &octets));
  SAY(got.l_onoff);
  SAY(got.l_linger);
  SAY(send_pattern(pair.client, 0, 10000));
  SAY(close(pair.client));
  SAY(receive_pattern(pair.server, 0, 10000));
  close(pair.server), close(pair.listener);
}

static void tcp_info(void) {
  struct pair pair = open_ipv4_pair();
  struct tcp_info info;
  memset(&info, 0, sizeof info);
  socklen_t octets = sizeof info;
  SAY(getsockopt(pair.client, IPPROTO_TCP, TCP_INFO, &info, &octets));
  SAY(octets == sizeof info);
  SAY(info.tcpi_state);
  octets = sizeof info;
  SAY(getsockopt(pair.listener, IPPROTO_TCP, TCP_INFO, &info, &octets));
  SAY(info.tcpi_state);
  int mss = 0;
  octets = sizeof mss;
  SAY(getsockopt(pair.client, IPPROTO_TCP, TCP_MAXSEG, &mss, &octets));
  SAY(mss > 500);
  close_pair(&pair);
}

static void ipv6(void) {
  struct pair pair = open_pair(AF_INET6);
  struct sockaddr_in6 name;
  socklen_t size = sizeof name;
  SAY(getpeername(pair.server, (struct sockaddr*)&name, &size));
  SAY(size);
  SAY(name.sin6_family);
  SAY(memcmp(&name.sin6_addr, &in6addr_loopback, 16));
  SAY(send_pattern(pair.client, 0, 100000) + receive_pattern(pair.server, 0, 100000));
  ROUND_TRIP(pair.client, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  ROUND_TRIP(pair.client, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 9);
  ROUND_TRIP(pair.client, SOL_SOCKET, SO_DOMAIN, 1);
  close_pair(&pair);
}

/* A listener on :: serves IPv4 too, unless told not to. */
static void ipv6_serves_ipv4(void) {
  const int listener = socket(AF_INET6, SOCK_STREAM, 0);
  struct sockaddr_in6 any;
  memset(&any, 0, sizeof any);
  any.sin6_family = AF_INET6;
  SAY(bind(listener, (struct sockaddr*)&any, sizeof any));
  SAY(listen(listener, 5));
  struct sockaddr_storage name = name_of(listener);
  const struct sockaddr_storage four = loopback(ntohs(((struct sockaddr_in6*)&name)->sin6_port));
  const int client = connect_to(&four);
  struct sockaddr_in6 came;
  socklen_t size = sizeof came;
  const int server = accept(listener, (struct sockaddr*)&came, &size);
  SAY(size);
  SAY(came.sin6_family);
  SAY(IN6_IS_ADDR_V4MAPPED(&came.sin6_addr));
  SAY(send(server, "x", 1, 0));
  char octet;
  SAY(recv(client, &octet, 1, 0));
  close(client), close(server), close(listener);
}

static void ipv6_only(void) {
  const int listener = socket(AF_INET6, SOCK_STREAM, 0);
  const int on = 1;
  struct sockaddr_in6 any;
  memset(&any, 0, sizeof any);
  any.sin6_family = AF_INET6;
  SAY(setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on));
  SAY(bind(listener, (struct sockaddr*)&any, sizeof any));
  SAY(listen(listener, 5));
  struct sockaddr_storage name = name_of(listener);
  const struct sockaddr_storage four = loopback(ntohs(((struct sockaddr_in6*)&name)->sin6_port));
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  SAY(connect(client, (const struct sockaddr*)&four, sizeof(struct sockaddr_in)));
  close(client), close(listener);
}

const struct test_case options_cases[] = {
    {"of_a_connection", of_a_connection},
    {"of_a_listener", of_a_listener},
    {"of_a_fresh_socket", of_a_fresh_socket},
    {"accepted_ones_inherit", accepted_ones_inherit},
    {"times", times},
    {"buffers", buffers},
    {"told_before", told_before},
    {"told_before_ipv6", told_before_ipv6},
    {"small_buffers_hold_little", small_buffers_hold_little},
    {"lingering", lingering},
    {"tcp_info", tcp_info},
    {"ipv6", ipv6},
    {"ipv6_serves_ipv4", ipv6_serves_ipv4},
    {"ipv6_only", ipv6_only},
    {NULL, NULL},
};

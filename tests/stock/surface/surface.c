/* The cases' common ground, and main.

   usage: [SURFACE_ADDRESS=own address] stock_surface --list | FAMILY.CASE
   Exit status 0: the case came to its end, whatever it printed. The last line on stderr says
   whether its sockets were in IWARP_MODE. */
#define _GNU_SOURCE
#include "surface.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <weft/sockets.h>

static int switched; /* sockets that open_pair and its kin found in IWARP_MODE */

long say(const char* what, long result) {
  const int code = errno;
  if (result < 0) {
    const char* name = strerrorname_np(code);
    printf("%s: %ld %s\n", what, result, name != NULL ? name : "?");
  } else {
    printf("%s: %ld\n", what, result);
  }
  fflush(stdout);
  errno = code;
  return result;
}

void tell(const char* what, const char* text) {
  printf("%s: %s\n", what, text);
  fflush(stdout);
}

void need(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  fflush(stdout);
  _exit(1);
}

static void note_mode(int fd) {
  int mode = 0;
  socklen_t octets = sizeof mode;
  if (getsockopt(fd, SOL_IWARP, IWARP_MODE, &mode, &octets) == 0 && mode != 0) ++switched;
}

socklen_t octets_of(const struct sockaddr_storage* address) {
  return address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

struct sockaddr_storage name_of(int fd) {
  struct sockaddr_storage name;
  socklen_t octets = sizeof name;
  memset(&name, 0, sizeof name);
  need(getsockname(fd, (struct sockaddr*)&name, &octets) == 0, "getsockname");
  return name;
}

int listen_on(int family) {
  struct sockaddr_storage address = loopback(0);
  if (family == AF_INET6) {
    struct sockaddr_in6* six = (struct sockaddr_in6*)&address;
    memset(&address, 0, sizeof address);
    six->sin6_family = AF_INET6;
    six->sin6_addr = in6addr_loopback;
  }
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  need(fd >= 0, "socket");
  need(bind(fd, (struct sockaddr*)&address, octets_of(&address)) == 0, "bind");
  need(listen(fd, 64) == 0, "listen");
  note_mode(fd);
  return fd;
}

int connect_to(const struct sockaddr_storage* address) {
  const int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  need(fd >= 0, "socket");
  need(connect(fd, (const struct sockaddr*)address, octets_of(address)) == 0, "connect");
  note_mode(fd);
  return fd;
}

struct pair open_pair(int family) {
  struct pair pair;
  pair.listener = listen_on(family);
  const struct sockaddr_storage name = name_of(pair.listener);
  pair.client = connect_to(&name);
  pair.server = accept4(pair.listener, NULL, NULL, SOCK_CLOEXEC);
  need(pair.server >= 0, "accept4");
  return pair;
}

struct pair open_ipv4_pair(void) {
  return open_pair(AF_INET);
}

void close_pair(struct pair* pair) {
  close(pair->client);
  close(pair->server);
  close(pair->listener);
}

short wait_for(int fd, short events) {
  struct pollfd one = {fd, events, 0};
  const int ready = poll(&one, 1, PATIENCE_S * 1000);
  need(ready >= 0, "poll");
  return ready == 0 ? 0 : one.revents;
}

unsigned char pattern_at(uint64_t place) {
  return (unsigned char)((place * 2654435761u) >> 13);
}

long send_pattern(int fd, uint64_t start, long octets) {
  unsigned char piece[10000];
  long sent = 0;
  while (sent < octets) {
    const size_t wanted =
        octets - sent < (long)sizeof piece ? (size_t)(octets - sent) : sizeof piece;
    for (size_t i = 0; i < wanted; ++i) piece[i] = pattern_at(start + (uint64_t)sent + i);
    const ssize_t part = send(fd, piece, wanted, MSG_NOSIGNAL);
    if (part < 0) return -1;
    sent += part;
  }
  return sent;
}

long receive_pattern(int fd, uint64_t start, long octets) {
  unsigned char piece[7000];
  long got = 0;
  while (got < octets) {
    const size_t wanted = octets - got < (long)sizeof piece ? (size_t)(octets - got) : sizeof piece;
    const ssize_t part = recv(fd, piece, wanted, 0);
    if (part < 0) return -1;
    if (part == 0) return got;
    for (ssize_t i = 0; i < part; ++i, ++got) {
      if (piece[i] != pattern_at(start + (uint64_t)got)) return got;
    }
  }
  return got;
}

struct sockaddr_storage loopback(int port) {
  struct sockaddr_storage address;
  struct sockaddr_in* four = (struct sockaddr_in*)&address;
  memset(&address, 0, sizeof address);
  four->sin_family = AF_INET;
  /* An RNIC need not serve the loopback: then it is this machine's address at the RNIC. */
  const char* instead = getenv("SURFACE_ADDRESS");
  four->sin_addr.s_addr = instead != NULL ? inet_addr(instead) : htonl(INADDR_LOOPBACK);
  four->sin_port = htons((uint16_t)port);
  return address;
}

void send_word(int words, int word) {
  need(write(words, &word, sizeof word) == sizeof word, "word");
}

int read_word(int words) {
  int word = 0;
  return read(words, &word, sizeof word) == sizeof word ? word : -1;
}

struct peer start_peer(void (*work)(int words)) {
  int ends[2];
  need(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
  struct peer peer = {fork(), ends[0]};
  need(peer.pid >= 0, "fork");
  if (peer.pid == 0) {
    alarm(3 * PATIENCE_S);
    close(ends[0]);
    work(ends[1]);
    exit(0);
  }
  close(ends[1]);
  return peer;
}

int peer_port(const struct peer* peer) {
  const int port = read_word(peer->words);
  need(port > 0, "the peer's port");
  return port;
}

int end_peer(struct peer* peer) {
  int status = 0;
  close(peer->words);
  need(waitpid(peer->pid, &status, 0) == peer->pid, "waitpid");
  return status;
}

static const struct {
  const char* name;
  const struct test_case* cases;
} families[] = {
    {"calls", calls_cases},     {"octets", octets_cases},       {"ends", ends_cases},
    {"ready", ready_cases},     {"processes", processes_cases}, {"shared", shared_cases},
    {"options", options_cases}, {"signals", signals_cases},     {"limits", limits_cases},
};

int main(int count, char** words) {
  need(count == 2, "usage: stock_surface --list | FAMILY.CASE");
  for (size_t f = 0; f < sizeof families / sizeof families[0]; ++f) {
    for (const struct test_case* one = families[f].cases; one->name != NULL; ++one) {
      char name[100];
      snprintf(name, sizeof name, "%s.%s", families[f].name, one->name);
      if (strcmp(words[1], "--list") == 0) puts(name);
      if (strcmp(words[1], name) != 0) continue;
      alarm(3 * PATIENCE_S); /* a hang ends, and is seen */
      one->run();
      puts("end");
      fprintf(stderr, "in IWARP_MODE: %d\n", switched);
      return 0;
    }
  }
  return strcmp(words[1], "--list") == 0 ? 0 : 2;
}

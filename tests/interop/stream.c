// A program of plain sockets, which knows of no RDMA: each octet of a stream is checked, and what
// the program sends is known at its other end beforehand.
//
// usage: stream server|client ADDRESS PORT WHAT
//   requests      300 requests of 1 to 8000 octets, each answered before the next
//   transfer      4 MiB to the server, then 4 MiB back, by calls that block
//   poll, epoll   4 MiB both ways at once, on a socket that does not block
//   half_close    the client ends its half, and is answered after that
//   server_first  the server speaks before it has heard anything
//   fork          the server has a child do the first of these
// Gives up after 100 seconds (exit status 142). The last line is "equal", with the octets seen.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kOctets = 4 << 20, kHalf = 300000, kAnswer = 1 << 20, kRequests = 300, kChunk = 50000 };

static uint64_t octets_seen;

static void require(int holds, const char* what) {
  if (holds) return;
  printf("failed: %s: %s\n", what, strerror(errno));
  exit(1);
}

// Octet `at` of the stream that one end sends: no two parts of it are alike.
static uint8_t octet(uint64_t at, int of_server) {
  uint64_t mixed = (at / 8 + 1) * 0x9e3779b97f4a7c15u + (of_server ? 0x5851f42d4c957f2du : 0);
  mixed ^= mixed >> 29;
  return (uint8_t)(mixed >> (at % 8 * 8));
}

// One direction of a stream: how far it has come, and who sends it.
struct Direction {
  uint64_t at;
  int of_server;
};

static void fill(const struct Direction* direction, uint8_t* octets, size_t count) {
  for (size_t i = 0; i < count; ++i) octets[i] = octet(direction->at + i, direction->of_server);
}

static void check(struct Direction* direction, const uint8_t* octets, size_t count) {
  for (size_t i = 0; i < count; ++i, ++direction->at) {
    if (octets[i] == octet(direction->at, direction->of_server)) continue;
    printf("failed: octet %llu is not what was sent\n", (unsigned long long)direction->at);
    exit(1);
  }
  octets_seen += count;
}

static void send_all(int fd, struct Direction* out, size_t count) {
  static uint8_t chunk[kChunk];
  while (count > 0) {
    const size_t part = count < kChunk ? count : kChunk;
    fill(out, chunk, part);
    const ssize_t sent = send(fd, chunk, part, 0);
    require(sent > 0, "send");
    out->at += (uint64_t)sent;
    count -= (size_t)sent;
  }
}

static void receive_all(int fd, struct Direction* in, size_t count) {
  static uint8_t chunk[kChunk];
  while (count > 0) {
    const ssize_t got = recv(fd, chunk, count < kChunk ? count : kChunk, 0);
    require(got > 0, "recv");
    check(in, chunk, (size_t)got);
    count -= (size_t)got;
  }
}

static void receive_end(int fd) {
  char more;
  require(recv(fd, &more, 1, 0) == 0, "the end of the stream");
}

// Takes turns as the socket can: one call each time it is said to be ready.
static void both_ways(int fd, struct Direction* in, struct Direction* out, int by_epoll) {
  static uint8_t chunk[kChunk];
  const int set = epoll_create1(0), one = 1;
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT};
  require(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one) == 0, "setsockopt");
  require(!by_epoll || epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
  while (in->at < kOctets || out->at < kOctets) {
    struct pollfd wanted = {fd, (short)(POLLIN | (out->at < kOctets ? POLLOUT : 0)), 0};
    event.events = (uint32_t)wanted.events;
    require(!by_epoll || epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) == 0, "epoll_ctl");
    require((by_epoll ? epoll_wait(set, &event, 1, -1) : poll(&wanted, 1, -1)) == 1, "waiting");
    const int ready = by_epoll ? (int)event.events : wanted.revents;
    if ((ready & POLLIN) != 0) {
      const ssize_t got = recv(fd, chunk, kChunk, MSG_DONTWAIT);
      require(got > 0, "recv when there is something");
      check(in, chunk, (size_t)got);
    }
    if ((ready & POLLOUT) != 0) {
      const size_t part = kOctets - out->at < kChunk ? kOctets - out->at : kChunk;
      fill(out, chunk, part);
      const ssize_t sent = send(fd, chunk, part, MSG_DONTWAIT);
      require(sent > 0, "send when there is room");
      out->at += (uint64_t)sent;
    }
    require((ready & (POLLERR | POLLNVAL)) == 0, "an error is told");
  }
  close(set);
}

static void talk(int fd, int is_server, const char* what) {
  struct Direction in = {0, !is_server}, out = {0, is_server};
  if (strcmp(what, "requests") == 0 || strcmp(what, "fork") == 0) {
    for (size_t i = 0; i < kRequests; ++i) {
      const size_t asked = 1 + i * i * 7 % 8000, answered = 1 + i * 31 % 3000;
      if (is_server) receive_all(fd, &in, asked);
      send_all(fd, &out, is_server ? answered : asked);
      if (!is_server) receive_all(fd, &in, answered);
    }
  } else if (strcmp(what, "transfer") == 0) {
    if (is_server) receive_all(fd, &in, kOctets);
    send_all(fd, &out, kOctets);
    if (!is_server) receive_all(fd, &in, kOctets);
  } else if (strcmp(what, "poll") == 0 || strcmp(what, "epoll") == 0) {
    both_ways(fd, &in, &out, what[0] == 'e');
  } else if (strcmp(what, "half_close") == 0) {
    if (is_server) {
      receive_all(fd, &in, kHalf);
      receive_end(fd);
      send_all(fd, &out, kAnswer);
    } else {
      send_all(fd, &out, kHalf);
      require(shutdown(fd, SHUT_WR) == 0, "shutdown");
      receive_all(fd, &in, kAnswer);
      receive_end(fd);
    }
  } else {
    require(strcmp(what, "server_first") == 0, "the last argument");
    if (is_server) send_all(fd, &out, 1000);
    if (!is_server) receive_all(fd, &in, 1000);
    if (!is_server) send_all(fd, &out, 1000);
    if (is_server) receive_all(fd, &in, 1000);
  }
}

// The client's socket, or the first that the listener accepts.
static int connected(const struct addrinfo* address, int is_server) {
  const int one = 1, fd = socket(address->ai_family, SOCK_STREAM, 0);
  require(fd >= 0, "socket");
  if (!is_server) {
    require(connect(fd, address->ai_addr, address->ai_addrlen) == 0, "connect");
    return fd;
  }
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  require(bind(fd, address->ai_addr, address->ai_addrlen) == 0, "bind");
  require(listen(fd, 8) == 0, "listen");
  struct pollfd waiting = {fd, POLLIN, 0};
  require(poll(&waiting, 1, -1) == 1, "poll");
  const int accepted = accept(fd, NULL, NULL);
  require(accepted >= 0, "accept");
  close(fd);
  return accepted;
}

int main(int count, char** words) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  alarm(100);
  if (count != 5) return 2;
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
  struct addrinfo* address = NULL;
  require(getaddrinfo(words[2], words[3], &hints, &address) == 0, "the address");
  const int is_server = strcmp(words[1], "server") == 0;
  const int fd = connected(address, is_server);
  freeaddrinfo(address);
  const pid_t child = is_server && strcmp(words[4], "fork") == 0 ? fork() : 0;
  if (child == 0) talk(fd, is_server, words[4]);
  require(close(fd) == 0, "close");
  if (child != 0) {
    int status = 1;
    require(waitpid(child, &status, 0) == child && status == 0, "the child");
    return 0;
  }
  printf("equal: %llu octets\n", (unsigned long long)octets_seen);
  return 0;
}

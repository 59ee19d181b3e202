/* What a call costs, on sockets and files that no rule switches: sockets.py runs this with and
   without libweft-sockets.so. Prints one line for each call: its name, what it returned in all
   (the same either way), and nanoseconds of one call, the best of several rounds. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { kCalls = 20000, kRounds = 7, kOctets = 64, kStreamOctets = 65536, kStreamCalls = 8192 };

static int near_end, far_end, zero, null, epoll;
static char octets[kStreamOctets];

static void require(int holds, const char* what) {
  if (holds) return;
  perror(what);
  exit(1);
}

static void connect_ends(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  const int on = 1;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  near_end = socket(AF_INET, SOCK_STREAM, 0);
  require(bind(listener, (struct sockaddr*)&address, length) == 0 && listen(listener, 1) == 0 &&
              getsockname(listener, (struct sockaddr*)&address, &length) == 0 &&
              connect(near_end, (struct sockaddr*)&address, length) == 0,
          "connect");
  far_end = accept(listener, NULL, NULL);
  require(far_end >= 0 && setsockopt(near_end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0,
          "accept");
  close(listener);
}

/* Each gives what the calls returned. The names say which call is counted. */
static long send_and_recv(void) {
  return send(near_end, octets, kOctets, 0) + recv(far_end, octets, kOctets, 0);
}
static long recv_nothing(void) {
  return recv(far_end, octets, kOctets, MSG_DONTWAIT);
}
static long read_file(void) {
  return read(zero, octets, kOctets);
}
static long write_file(void) {
  return write(null, octets, kOctets);
}
static long poll_one(void) {
  struct pollfd fd = {near_end, POLLOUT, 0};
  return poll(&fd, 1, 0) + fd.revents;
}
static long select_one(void) {
  fd_set set;
  struct timeval none = {0, 0};
  FD_ZERO(&set);
  FD_SET(near_end, &set);
  return select(near_end + 1, NULL, &set, NULL, &none);
}
static long epoll_once(void) {
  struct epoll_event event;
  return epoll_wait(epoll, &event, 1, 0);
}
static long open_and_close(void) {
  return close(dup(zero));
}
static long stream(void) {
  const long sent = send(near_end, octets, kStreamOctets, 0);
  long got = 0;
  while (got < sent) got += recv(far_end, octets, kStreamOctets, 0);
  return sent + got;
}

static const struct {
  const char* name;
  long (*call)(void);
  int times, calls_each;
} kWork[] = {
    {"send+recv", send_and_recv, kCalls, 2}, {"recv-EAGAIN", recv_nothing, kCalls, 1},
    {"read", read_file, kCalls, 1},          {"write", write_file, kCalls, 1},
    {"poll", poll_one, kCalls, 1},           {"select", select_one, kCalls, 1},
    {"epoll_wait", epoll_once, kCalls, 1},   {"dup+close", open_and_close, kCalls, 2},
    {"stream-64K", stream, kStreamCalls, 2},
};

/* On one processor: what crosses to another costs what the weather there is. */
static void stay_here(void) {
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET((size_t)sched_getcpu(), &here);
  sched_setaffinity(0, sizeof here, &here);
}

int main(void) {
  stay_here();
  connect_ends();
  zero = open("/dev/zero", O_RDONLY);
  null = open("/dev/null", O_WRONLY);
  epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLOUT};
  require(zero >= 0 && null >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, near_end, &event) == 0, "open");
  for (unsigned i = 0; i < sizeof kWork / sizeof kWork[0]; ++i) {
    double best = 1e18;
    long returned = 0;
    for (int round = 0; round < kRounds; ++round) {
      struct timespec start, end;
      clock_gettime(CLOCK_MONOTONIC, &start);
      for (int n = 0; n < kWork[i].times / kRounds; ++n) returned += kWork[i].call();
      clock_gettime(CLOCK_MONOTONIC, &end);
      const double ns =
          (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
      const double each = ns / (kWork[i].times / kRounds) / kWork[i].calls_each;
      if (each < best) best = each;
    }
    printf("%s %ld %.1f\n", kWork[i].name, returned, best);
  }
  return 0;
}

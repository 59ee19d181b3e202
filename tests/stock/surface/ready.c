/* Readiness: poll, select and epoll, beside ordinary descriptors. */
#define _GNU_SOURCE
#include "surface.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/timerfd.h>
#include <time.h>

static char octets[65536];

static void polling(void) {
  struct pair pair = open_ipv4_pair();
  int ends[2];
  need(pipe(ends) == 0, "pipe");
  struct pollfd all[4] = {{pair.client, POLLIN | POLLOUT, 0},
                          {ends[0], POLLIN, 0},
                          {-1, POLLIN, 0},
                          {pair.server, POLLIN, 0}};
  SAY(poll(all, 4, 0));
  SAY(all[0].revents);
  SAY(send(pair.server, "x", 1, 0));
  SAY(wait_for(pair.client, POLLIN));
  SAY(write(ends[1], "x", 1));
  SAY(poll(all, 4, -1));
  SAY(all[0].revents);
  SAY(all[1].revents);
  SAY(all[3].revents);
  SAY(recv(pair.client, octets, 1, 0));
  SAY(poll(&all[3], 1, 20));
  all[3].fd = 999;
  SAY(poll(&all[3], 1, 20));
  SAY(all[3].revents);
  struct timespec soon = {0, 20000000};
  SAY(ppoll(all, 1, &soon, NULL));
  all[0].events = POLLIN;
  SAY(ppoll(all, 1, &soon, NULL));
  SAY(poll(all, 1, 20));
  SAY(close(pair.server));
  all[0].events = POLLIN | POLLRDHUP | POLLOUT;
  SAY(wait_for(pair.client, POLLRDHUP));
  SAY(poll(all, 1, 0));
  SAY(all[0].revents);
  close(pair.client), close(pair.listener), close(ends[0]), close(ends[1]);
}

static void polling_a_listener(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  struct pollfd one = {listener, POLLIN | POLLOUT, 0};
  SAY(poll(&one, 1, 10));
  const int client = connect_to(&name);
  SAY(wait_for(listener, POLLIN));
  const int server = accept(listener, NULL, NULL);
  SAY(server >= 0);
  SAY(poll(&one, 1, 10));
  close(client), close(server), close(listener);
}

static void selecting(void) {
  struct pair pair = open_ipv4_pair();
  fd_set in, out, odd;
  FD_ZERO(&in);
  FD_ZERO(&out);
  FD_ZERO(&odd);
  FD_SET(pair.client, &in);
  FD_SET(pair.client, &out);
  FD_SET(pair.client, &odd);
  SAY(select(pair.client + 1, &in, &out, &odd, NULL));
  SAY(FD_ISSET(pair.client, &in) != 0);
  SAY(FD_ISSET(pair.client, &out) != 0);
  SAY(FD_ISSET(pair.client, &odd) != 0);
  SAY(send(pair.server, "x", 1, 0));
  FD_ZERO(&in);
  FD_SET(pair.client, &in);
  struct timeval long_time = {PATIENCE_S, 0};
  SAY(select(pair.client + 1, &in, NULL, NULL, &long_time));
  SAY(FD_ISSET(pair.client, &in) != 0);
  SAY(long_time.tv_sec < PATIENCE_S);
  SAY(recv(pair.client, octets, 1, 0));
  struct timeval soon = {0, 10000};
  SAY(select(pair.client + 1, &in, NULL, NULL, &soon));
  SAY(FD_ISSET(pair.client, &in) != 0);
  SAY(soon.tv_sec + soon.tv_usec);
  struct timespec short_time = {0, 10000000};
  FD_SET(pair.client, &in);
  SAY(pselect(pair.client + 1, &in, NULL, NULL, &short_time, NULL));
  FD_SET(pair.client, &in);
  SAY(select(-1, &in, NULL, NULL, &soon));
  FD_ZERO(&in);
  FD_SET(pair.client, &in);
  const int closed = dup(pair.client);
  close(closed);
  FD_SET(closed, &in);
  SAY(select(closed + 1, &in, NULL, NULL, &soon));
  close_pair(&pair);
}

/* Which of the sockets' names an epoll set tells within a time, as letters in order. */
static void say_events(const char* what, int epoll, int wait_ms) {
  struct epoll_event events[8];
  const int count = epoll_wait(epoll, events, 8, wait_ms);
  say(what, count);
  for (char name = 'a'; name <= 'z'; ++name) {
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u32 == (uint32_t)name) {
        printf("  %c %x\n", name, events[i].events);
      }
    }
  }
}
static int add(int epoll, int fd, uint32_t events, char name) {
  struct epoll_event event = {.events = events, .data.u32 = (uint32_t)name};
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}
static int change(int epoll, int fd, uint32_t events, char name) {
  struct epoll_event event = {.events = events, .data.u32 = (uint32_t)name};
  return epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event);
}

enum { SOON_MS = 50, LONG_MS = PATIENCE_S * 1000 };

static void epoll_by_level(void) {
  struct pair pair = open_ipv4_pair();
  const int epoll = epoll_create1(0);
  int ends[2];
  need(pipe(ends) == 0, "pipe");
  SAY(add(epoll, pair.client, EPOLLIN, 'c'));
  SAY(add(epoll, pair.client, EPOLLIN, 'c'));
  SAY(add(epoll, ends[0], EPOLLIN, 'p'));
  say_events("nothing", epoll, SOON_MS);
  SAY(send(pair.server, "12", 2, 0));
  say_events("readable", epoll, LONG_MS);
  say_events("still", epoll, LONG_MS);
  SAY(recv(pair.client, octets, 1, 0));
  say_events("one is left", epoll, LONG_MS);
  SAY(write(ends[1], "x", 1));
  say_events("and a pipe", epoll, LONG_MS);
  SAY(recv(pair.client, octets, 1, 0));
  say_events("only the pipe", epoll, LONG_MS);
  SAY(read(ends[0], octets, 1));
  say_events("nothing again", epoll, SOON_MS);
  SAY(change(epoll, pair.client, EPOLLIN | EPOLLOUT, 'd'));
  say_events("writable", epoll, LONG_MS);
  SAY(change(epoll, pair.client, EPOLLIN | EPOLLRDHUP, 'e'));
  SAY(shutdown(pair.server, SHUT_WR));
  say_events("half closed", epoll, LONG_MS);
  SAY(recv(pair.client, octets, 1, 0));
  SAY(shutdown(pair.client, SHUT_WR));
  say_events("hung up", epoll, LONG_MS);
  SAY(epoll_ctl(epoll, EPOLL_CTL_DEL, pair.client, NULL));
  SAY(epoll_ctl(epoll, EPOLL_CTL_DEL, pair.client, NULL));
  say_events("forgotten", epoll, SOON_MS);
  close(epoll), close(ends[0]), close(ends[1]);
  close_pair(&pair);
}

static void epoll_by_edge(void) {
  struct pair pair = open_ipv4_pair();
  const int epoll = epoll_create1(0);
  SAY(add(epoll, pair.client, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, 'c'));
  say_events("writable at first", epoll, LONG_MS);
  say_events("told once", epoll, SOON_MS);
  SAY(send(pair.server, "1", 1, 0));
  say_events("readable", epoll, LONG_MS);
  say_events("told once", epoll, SOON_MS);
  SAY(send(pair.server, "2", 1, 0));
  say_events("more came", epoll, LONG_MS);
  SAY(recv(pair.client, octets, 10, 0));
  say_events("read", epoll, SOON_MS);
  SAY(send(pair.server, "3", 1, 0));
  say_events("readable again", epoll, LONG_MS);
  SAY(recv(pair.client, octets, 10, 0));
  SAY(close(pair.server));
  say_events("closed", epoll, LONG_MS);
  close(epoll), close(pair.client), close(pair.listener);
}

/* A writer that fills the stream and waits for the edge. */
static void epoll_edge_of_a_writer(void) {
  struct pair pair = open_ipv4_pair();
  const int epoll = epoll_create1(0);
  fcntl(pair.client, F_SETFL, O_NONBLOCK);
  SAY(add(epoll, pair.client, EPOLLOUT | EPOLLET, 'c'));
  say_events("writable", epoll, LONG_MS);
  long sent = 0, got = 0;
  ssize_t part = 0;
  for (int round = 0; round < 5; ++round) {
    while ((part = send(pair.client, octets, sizeof octets, 0)) > 0) sent += part;
    need(errno == EAGAIN, "EAGAIN");
    while (got < sent) {
      part = recv(pair.server, octets, sizeof octets, 0);
      if (part <= 0) break;
      got += part;
    }
    struct epoll_event event;
    SAY(epoll_wait(epoll, &event, 1, LONG_MS));
  }
  SAY(got == sent);
  close(epoll);
  close_pair(&pair);
}

static void epoll_one_shot(void) {
  struct pair pair = open_ipv4_pair();
  const int epoll = epoll_create1(0);
  SAY(add(epoll, pair.client, EPOLLIN | EPOLLONESHOT, 'c'));
  SAY(send(pair.server, "12", 2, 0));
  say_events("shot", epoll, LONG_MS);
  say_events("spent", epoll, SOON_MS);
  SAY(change(epoll, pair.client, EPOLLIN | EPOLLONESHOT, 'd'));
  say_events("loaded again", epoll, LONG_MS);
  say_events("spent again", epoll, SOON_MS);
  close(epoll);
  close_pair(&pair);
}

/* A listener, a timer, an eventfd and connections in one set, and that set in another. */
static void epoll_of_all_kinds(void) {
  const int inner = epoll_create1(0), outer = epoll_create1(0);
  const int event = eventfd(0, EFD_NONBLOCK);
  const int timer = timerfd_create(CLOCK_MONOTONIC, 0);
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  SAY(add(inner, listener, EPOLLIN, 'l'));
  SAY(add(inner, event, EPOLLIN, 'e'));
  SAY(add(inner, timer, EPOLLIN, 't'));
  SAY(add(outer, inner, EPOLLIN, 'i'));
  say_events("quiet", outer, SOON_MS);
  const int client = connect_to(&name);
  say_events("outer", outer, LONG_MS);
  say_events("a connection", inner, LONG_MS);
  const int server = accept(listener, NULL, NULL);
  SAY(add(inner, server, EPOLLIN | EPOLLOUT, 's'));
  SAY(eventfd_write(event, 1));
  SAY(send(client, "x", 1, 0));
  SAY(wait_for(server, POLLIN));
  say_events("all", inner, LONG_MS);
  struct pollfd by_poll[2] = {{inner, POLLIN, 0}, {client, POLLIN | POLLOUT, 0}};
  SAY(poll(by_poll, 2, 0));
  close(server);
  eventfd_t value;
  SAY(eventfd_read(event, &value));
  say_events("closing takes it out", inner, SOON_MS);
  close(client), close(listener), close(inner), close(outer), close(event), close(timer);
}

/* Registered while it is still a fresh socket, as event loops do. */
static void epoll_before_connecting(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  const int epoll = epoll_create1(0);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  SAY(add(epoll, fd, EPOLLIN | EPOLLOUT | EPOLLET, 'c'));
  say_events("not connected", epoll, SOON_MS);
  SAY(connect(fd, (const struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  const int server = accept(listener, NULL, NULL);
  say_events("connected", epoll, LONG_MS);
  int error = -1;
  socklen_t size = sizeof error;
  SAY(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
  SAY(error);
  SAY(send(server, "x", 1, 0));
  say_events("readable", epoll, LONG_MS);
  close(fd), close(server), close(listener), close(epoll);
}

/* Threads that wait for one set by one-shot: each arrival wakes one, and none is lost. Another
   thread waits for a set of its own, whose socket any of them may have to look after. */
enum { WAITERS = 3, ARRIVALS = 300 };
static struct {
  int set, socket, stop;
  atomic_int got;
} shared;

static void* take_by_one_shot(void* unused) {
  (void)unused;
  struct epoll_event event;
  char octet;
  for (;;) {
    need(epoll_wait(shared.set, &event, 1, -1) == 1, "epoll_wait");
    if ((int)event.data.u32 == 's') return NULL;
    while (recv(shared.socket, &octet, 1, MSG_DONTWAIT) == 1) atomic_fetch_add(&shared.got, 1);
    need(change(shared.set, shared.socket, EPOLLIN | EPOLLONESHOT, 'c') == 0, "epoll_ctl");
  }
}

static void* answer_by_level(void* server) {
  const int fd = *(int*)server, set = epoll_create1(0);
  struct epoll_event event;
  need(add(set, fd, EPOLLIN, 'a') == 0, "epoll_ctl");
  char octet;
  for (int i = 0; i < ARRIVALS; ++i) {
    need(epoll_wait(set, &event, 1, -1) == 1, "epoll_wait");
    need(recv(fd, &octet, 1, 0) == 1, "recv");
    need(send(fd, &octet, 1, 0) == 1, "send");
  }
  close(set);
  return NULL;
}

static void epoll_by_several_threads(void) {
  struct pair pair = open_ipv4_pair(), other = open_ipv4_pair();
  pthread_t takers[WAITERS], answerer;
  shared.set = epoll_create1(0), shared.socket = pair.client, shared.stop = eventfd(0, 0);
  atomic_store(&shared.got, 0);
  SAY(add(shared.set, pair.client, EPOLLIN | EPOLLONESHOT, 'c'));
  SAY(add(shared.set, shared.stop, EPOLLIN, 's'));
  for (int i = 0; i < WAITERS; ++i) pthread_create(&takers[i], NULL, take_by_one_shot, NULL);
  pthread_create(&answerer, NULL, answer_by_level, &other.server);
  char octet;
  for (int i = 0; i < ARRIVALS; ++i) {
    need(send(pair.server, "x", 1, 0) == 1, "send");
    need(send(other.client, "y", 1, 0) == 1, "send");
    need(recv(other.client, &octet, 1, 0) == 1, "recv");
    if (i % 100 == 0) usleep(3000); /* longer than anybody stands back */
  }
  for (int ms = 0; ms < LONG_MS && atomic_load(&shared.got) < ARRIVALS; ++ms) usleep(1000);
  SAY(atomic_load(&shared.got));
  SAY(eventfd_write(shared.stop, 1));
  for (int i = 0; i < WAITERS; ++i) pthread_join(takers[i], NULL);
  pthread_join(answerer, NULL);
  close(shared.set), close(shared.stop);
  close_pair(&pair), close_pair(&other);
}

/* Neither before its time nor long after, whatever else comes meanwhile. */
static void epoll_in_time(void) {
  struct pair pair = open_ipv4_pair(), other = open_ipv4_pair();
  const int epoll = epoll_create1(0), second = epoll_create1(0);
  struct epoll_event event;
  SAY(add(epoll, pair.client, EPOLLIN, 'c'));
  SAY(add(second, other.client, EPOLLIN, 'd'));
  for (int wait_ms = 0; wait_ms <= 100; wait_ms += 20) {
    SAY(send(other.server, "x", 1, 0)); /* of no interest to who waits */
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    SAY(epoll_wait(epoll, &event, 1, wait_ms));
    clock_gettime(CLOCK_MONOTONIC, &end);
    const long us = (end.tv_sec - start.tv_sec) * 1000000 + (end.tv_nsec - start.tv_nsec) / 1000;
    SAY(us >= wait_ms * 1000L);
    SAY(us < LONG_MS * 1000L);
  }
  SAY(epoll_wait(epoll, &event, 0, LONG_MS));
  SAY(epoll_wait(pair.client, &event, 1, LONG_MS));
  close(epoll), close(second);
  SAY(epoll_wait(epoll, &event, 1, LONG_MS));
  close_pair(&pair), close_pair(&other);
}

/* Of two descriptors of one socket, closing one leaves the other in the set. */
static void epoll_and_dup(void) {
  struct pair pair = open_ipv4_pair();
  const int epoll = epoll_create1(0);
  const int second = dup(pair.client);
  SAY(add(epoll, pair.client, EPOLLIN, 'c'));
  SAY(add(epoll, second, EPOLLIN, 'd'));
  SAY(close(pair.client));
  SAY(send(pair.server, "x", 1, 0));
  SAY(wait_for(second, POLLIN));
  struct epoll_event events[4];
  const int count = epoll_wait(epoll, events, 4, LONG_MS);
  SAY(count);
  SAY(recv(second, octets, 10, 0));
  close(second), close(pair.server), close(pair.listener), close(epoll);
}

static void connecting_without_waiting(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  SAY(connect(fd, (const struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  SAY(wait_for(fd, POLLOUT));
  int error = -1;
  socklen_t size = sizeof error;
  SAY(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
  SAY(error);
  const int server = accept(listener, NULL, NULL);
  SAY(send(fd, "x", 1, 0));
  SAY(recv(server, octets, 1, 0));
  close(fd), close(server), close(listener);
}

const struct test_case ready_cases[] = {
    {"polling", polling},
    {"polling_a_listener", polling_a_listener},
    {"selecting", selecting},
    {"epoll_by_level", epoll_by_level},
    {"epoll_by_edge", epoll_by_edge},
    {"epoll_edge_of_a_writer", epoll_edge_of_a_writer},
    {"epoll_one_shot", epoll_one_shot},
    {"epoll_of_all_kinds", epoll_of_all_kinds},
    {"epoll_before_connecting", epoll_before_connecting},
    {"epoll_and_dup", epoll_and_dup},
    {"epoll_by_several_threads", epoll_by_several_threads},
    {"epoll_in_time", epoll_in_time},
    {"connecting_without_waiting", connecting_without_waiting},
    {NULL, NULL},
};

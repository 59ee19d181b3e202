/* Readiness: poll, select and epoll, beside ordinary descriptors. */
#define _GNU_SOURCE
#include "surface.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <weft/sockets.h>

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

static void* send_soon(void* fd) {
  usleep(100000);
  need(send(*(int*)fd, "x", 1, 0) == 1, "send");
  return NULL;
}

/* Times that no clock counts to are for ever; those that are none are refused. */
static void odd_times(void) {
  struct pair pair = open_ipv4_pair();
  const struct timespec times[] = {{-1, 0},         {0, -1},
                                   {0, 1000000000}, {LONG_MAX, 1000000000},
                                   {LONG_MAX, 5},   {LONG_MAX / 1000000000, 999999999},
                                   {20000000000, 0}};
  for (size_t i = 0; i < sizeof times / sizeof times[0]; ++i) {
    const int is_time =
        times[i].tv_sec >= 0 && times[i].tv_nsec >= 0 && times[i].tv_nsec < 1000000000;
    struct pollfd one = {pair.client, POLLIN, 0};
    fd_set in;
    FD_ZERO(&in);
    FD_SET(pair.client, &in);
    pthread_t later;
    for (int call = 0; call < 4; ++call) {
      struct timespec limit = times[i];
      struct timeval timeout = {limit.tv_sec, limit.tv_nsec / 1000};
      struct iovec part = {octets, 1};
      struct mmsghdr message = {{.msg_iov = &part, .msg_iovlen = 1}, 0};
      if (is_time) pthread_create(&later, NULL, send_soon, &pair.server);
      if (call == 0) SAY(ppoll(&one, 1, &limit, NULL));
      if (call == 1) SAY(pselect(pair.client + 1, &in, NULL, NULL, &limit, NULL));
      if (call == 2 && (is_time || limit.tv_nsec < 1000)) {
        SAY(select(pair.client + 1, &in, NULL, NULL, &timeout));
      }
      if (call == 3) SAY(recvmmsg(pair.client, &message, 1, 0, &limit));
      if (is_time) pthread_join(later, NULL);
      if (is_time && call != 3) SAY(recv(pair.client, octets, 1, 0));
    }
    const struct timeval limit = {times[i].tv_sec, 0};
    SAY(setsockopt(pair.client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    if (limit.tv_sec < 0) SAY(recv(pair.client, octets, 1, 0));
    if (limit.tv_sec > 0) {
      pthread_create(&later, NULL, send_soon, &pair.server);
      SAY(recv(pair.client, octets, 1, 0));
      pthread_join(later, NULL);
    }
  }
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

/* Who waits for the end of the peer's direction is not told of half of it first. */
static void epoll_of_an_end(void) {
  int whole = 0;
  for (int i = 0; i < 100; ++i) {
    struct pair pair = open_ipv4_pair();
    const int epoll = epoll_create1(0);
    add(epoll, pair.client, EPOLLIN | EPOLLRDHUP, 'c');
    shutdown(pair.server, SHUT_WR);
    struct epoll_event event = {0};
    epoll_wait(epoll, &event, 1, LONG_MS);
    whole += event.events == (EPOLLIN | EPOLLRDHUP);
    close(epoll);
    close_pair(&pair);
  }
  SAY(whole);
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

/* However much lies unread, each arrival is told. */
static void epoll_edges_of_who_does_not_read(void) {
  struct pair pair = open_ipv4_pair();
  const int epoll = epoll_create1(0);
  struct epoll_event event;
  SAY(add(epoll, pair.client, EPOLLIN | EPOLLET, 'c'));
  long told = 0;
  for (int i = 0; i < 100; ++i) {
    need(send(pair.server, "x", 1, 0) == 1, "send");
    told += epoll_wait(epoll, &event, 1, told == i ? LONG_MS : 0);
  }
  SAY(told);
  say_events("told once", epoll, SOON_MS);
  SAY(recv(pair.client, octets, sizeof octets, 0));
  say_events("read", epoll, SOON_MS);
  SAY(wait_for(pair.client, POLLIN | POLLOUT));
  SAY(send(pair.server, "x", 1, 0));
  say_events("one more", epoll, LONG_MS);
  close(epoll);
  close_pair(&pair);
}

static void epoll_edges_of_a_listener(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  const int epoll = epoll_create1(0);
  struct epoll_event event;
  int fds[4];
  SAY(add(epoll, listener, EPOLLIN | EPOLLET, 'l'));
  for (int i = 0; i < 4; ++i) {
    fds[i] = socket(AF_INET, SOCK_STREAM, 0);
    SAY(connect(fds[i], (const struct sockaddr*)&name, sizeof(struct sockaddr_in)));
    SAY(epoll_wait(epoll, &event, 1, LONG_MS));
    if (i == 1) SAY(accept(listener, NULL, NULL) >= 0);
  }
  SAY(epoll_wait(epoll, &event, 1, SOON_MS));
  for (int i = 0; i < 4; ++i) close(fds[i]);
  close(epoll), close(listener);
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

/* A listener that is shut is told as hung up, and then nothing is left to be done. */
static long busy_ms(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 +
         (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
}
static void epoll_of_a_listener_that_is_shut(void) {
  for (int by_child = 0; by_child < 2; ++by_child) {
    const int listener = listen_on(AF_INET);
    const int epoll = epoll_create1(0);
    SAY(add(epoll, listener, EPOLLIN, 'l'));
    say_events("quiet", epoll, SOON_MS);
    if (by_child) {
      const pid_t child = fork();
      if (child == 0) _exit(shutdown(listener, SHUT_RDWR));
      int status = -1;
      need(waitpid(child, &status, 0) == child, "waitpid");
      SAY(status);
      SAY(wait_for(listener, POLLIN));
    } else {
      SAY(shutdown(listener, SHUT_RD));
      /* A UNIX socket that is shut is readable too. */
      struct epoll_event event;
      SAY(epoll_wait(epoll, &event, 1, LONG_MS));
      SAY((event.events & EPOLLHUP) != 0);
    }
    SAY(accept(listener, NULL, NULL));
    const long before = busy_ms();
    sleep(1);
    SAY(busy_ms() - before < 300);
    close(listener), close(epoll);
  }
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

/* By level, so that whatever such a socket was before would be told again and again. */
static void epoll_by_level_before_connecting(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  const int epoll = epoll_create1(0);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  SAY(add(epoll, fd, EPOLLIN, 'c'));
  SAY(connect(fd, (const struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  const int server = accept(listener, NULL, NULL);
  SAY(wait_for(fd, POLLOUT));
  say_events("nothing came", epoll, SOON_MS);
  SAY(change(epoll, fd, EPOLLIN | EPOLLOUT, 'd'));
  say_events("writable", epoll, LONG_MS);
  SAY(epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL));
  say_events("forgotten", epoll, SOON_MS);
  SAY(add(epoll, fd, EPOLLIN, 'e'));
  SAY(send(server, "x", 1, 0));
  say_events("readable", epoll, LONG_MS);
  SAY(recv(fd, octets, 1, 0));
  say_events("read", epoll, SOON_MS);
  close(fd), close(server), close(listener), close(epoll);
}

/* A server that knows TCP alone: who comes by iWARP is sent away, who comes by TCP served. */
static void serve_tcp(int words) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0), off = IWARP_MODE_OFF;
  struct sockaddr_storage name = loopback(0);
  setsockopt(fd, SOL_IWARP, IWARP_MODE, &off, sizeof off);
  need(bind(fd, (const struct sockaddr*)&name, sizeof(struct sockaddr_in)) == 0, "bind");
  need(listen(fd, 5) == 0, "listen");
  name = name_of(fd);
  send_word(words, ntohs(((struct sockaddr_in*)&name)->sin_port));
  read_word(words); /* so that the client waits first */
  for (;;) {
    const int server = accept(fd, NULL, NULL);
    const int comes = recv(server, octets, 3, MSG_WAITALL) == 3 && memcmp(octets, "hi!", 3) == 0;
    if (comes) send(server, "yes", 3, 0);
    if (comes) recv(server, octets, 1, 0);
    close(server);
    if (comes) return;
  }
}

/* Under all its numbers the socket is one of TCP then, and under no other. */
static void falling_back(int by_epoll) {
  struct peer peer = start_peer(serve_tcp);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  const struct sockaddr_storage name = loopback(peer_port(&peer));
  const int epoll = epoll_create1(0);
  SAY(add(epoll, fd, EPOLLOUT, 'c'));
  SAY(connect(fd, (const struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  const int first = fd;
  fd = dup(first);
  SAY(close(first));
  SAY(dup2(epoll, first) == first); /* the number leads elsewhere */
  SAY(add(epoll, fd, EPOLLOUT, 'd'));
  send_word(peer.words, 1);
  struct epoll_event event;
  SAY(by_epoll ? epoll_wait(epoll, &event, 1, LONG_MS) : wait_for(fd, POLLOUT));
  int error = -1;
  socklen_t size = sizeof error;
  SAY(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
  SAY(error);
  fcntl(fd, F_SETFL, 0);
  SAY(connect(fd, (const struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  SAY(send(fd, "hi!", 3, 0));
  SAY(recv(fd, octets, 3, MSG_WAITALL));
  SAY(epoll_ctl(first, EPOLL_CTL_DEL, fd, NULL));
  close(fd), close(first), close(epoll);
  SAY(end_peer(&peer));
}
static void falls_back_in_poll(void) {
  falling_back(0);
}
static void falls_back_in_epoll(void) {
  falling_back(1);
}

/* Nobody listens, by neither. */
static void connecting_to_nobody(void) {
  const int bound = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_storage name = loopback(0);
  need(bind(bound, (const struct sockaddr*)&name, sizeof(struct sockaddr_in)) == 0, "bind");
  name = name_of(bound);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  const int epoll = epoll_create1(0);
  SAY(add(epoll, fd, EPOLLIN | EPOLLOUT, 'c'));
  if (connect(fd, (const struct sockaddr*)&name, sizeof(struct sockaddr_in)) < 0 &&
      errno == EINPROGRESS) {
    struct epoll_event event;
    need(epoll_wait(epoll, &event, 1, LONG_MS) == 1, "epoll_wait");
    socklen_t size = sizeof errno;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &errno, &size);
  }
  SAY(errno == ECONNREFUSED); /* the kernel may say so at once */
  close(fd), close(bound), close(epoll);
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

/* One thread answers on more sockets than it looks after at once, another writes to all of them and
   waits for each answer. */
enum { MANY = 70, ROUNDS = 20 };

static void* answer_many_by_level(void* unused) {
  (void)unused;
  struct epoll_event events[16];
  for (;;) {
    const int count = epoll_wait(shared.set, events, 16, -1);
    need(count > 0, "epoll_wait");
    for (int i = 0; i < count; ++i) {
      char octet;
      if (events[i].data.fd == shared.stop) return NULL;
      need(recv(events[i].data.fd, &octet, 1, 0) == 1, "recv");
      need(send(events[i].data.fd, &octet, 1, 0) == 1, "send");
    }
  }
}

static void epoll_of_many(void) {
  static struct pair pairs[MANY];
  pthread_t answerer;
  shared.set = epoll_create1(0), shared.stop = eventfd(0, 0);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = shared.stop};
  SAY(epoll_ctl(shared.set, EPOLL_CTL_ADD, shared.stop, &event));
  for (int i = 0; i < MANY; ++i) {
    pairs[i] = open_ipv4_pair();
    close(pairs[i].listener);
    event.data.fd = pairs[i].server;
    need(epoll_ctl(shared.set, EPOLL_CTL_ADD, pairs[i].server, &event) == 0, "epoll_ctl");
  }
  pthread_create(&answerer, NULL, answer_many_by_level, NULL);
  long answered = 0;
  for (int round = 0; round < ROUNDS; ++round) {
    char octet = 'x';
    for (int i = 0; i < MANY; ++i) need(send(pairs[i].client, &octet, 1, 0) == 1, "send");
    for (int i = 0; i < MANY; ++i) {
      need(wait_for(pairs[i].client, POLLIN) != 0, "an answer");
      answered += recv(pairs[i].client, &octet, 1, 0);
    }
    if (round % 5 == 0) usleep(3000); /* longer than anybody stands back */
  }
  SAY(answered);
  SAY(eventfd_write(shared.stop, 1));
  pthread_join(answerer, NULL);
  for (int i = 0; i < MANY; ++i) close(pairs[i].client), close(pairs[i].server);
  close(shared.set), close(shared.stop);
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
    {"odd_times", odd_times},
    {"epoll_by_level", epoll_by_level},
    {"epoll_of_an_end", epoll_of_an_end},
    {"epoll_by_edge", epoll_by_edge},
    {"epoll_edges_of_who_does_not_read", epoll_edges_of_who_does_not_read},
    {"epoll_edges_of_a_listener", epoll_edges_of_a_listener},
    {"epoll_edge_of_a_writer", epoll_edge_of_a_writer},
    {"epoll_one_shot", epoll_one_shot},
    {"epoll_of_all_kinds", epoll_of_all_kinds},
    {"epoll_of_a_listener_that_is_shut", epoll_of_a_listener_that_is_shut},
    {"epoll_before_connecting", epoll_before_connecting},
    {"epoll_by_level_before_connecting", epoll_by_level_before_connecting},
    {"falls_back_in_poll", falls_back_in_poll},
    {"falls_back_in_epoll", falls_back_in_epoll},
    {"connecting_to_nobody", connecting_to_nobody},
    {"epoll_and_dup", epoll_and_dup},
    {"epoll_by_several_threads", epoll_by_several_threads},
    {"epoll_of_many", epoll_of_many},
    {"epoll_in_time", epoll_in_time},
    {"connecting_without_waiting", connecting_without_waiting},
    {NULL, NULL},
};

/* One connection used by a process and its child at the same time, neither having closed it. */
#define _GNU_SOURCE
#include "surface.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <weft/sockets.h>

enum { MUCH = 4000000 };

static char octets[65536];

/* The peers: each serves one connection after the other, until it is ended. */
static int serve_next(int listener) {
  const int fd = accept(listener, NULL, NULL);
  need(fd >= 0, "accept");
  return fd;
}

static int listen_and_tell(int words) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  send_word(words, ntohs(((const struct sockaddr_in*)&name)->sin_port));
  return listener;
}

/* Sends back what comes, until the end. */
static void echo(int words) {
  const int listener = listen_and_tell(words);
  static char piece[30000];
  for (;;) {
    const int fd = serve_next(listener);
    ssize_t got;
    while ((got = recv(fd, piece, sizeof piece, 0)) > 0) {
      for (ssize_t sent = 0; sent < got;) {
        const ssize_t part = send(fd, piece + sent, (size_t)(got - sent), MSG_NOSIGNAL);
        if (part < 0) break;
        sent += part;
      }
    }
    close(fd);
  }
}

/* Waits for a word, then counts the octets of each of two writers, and tells. */
static void count(int words) {
  const int listener = listen_and_tell(words);
  for (;;) {
    const int fd = serve_next(listener);
    if (read_word(words) < 0) return;
    int of_parent = 0, of_child = 0;
    ssize_t got;
    while ((got = recv(fd, octets, sizeof octets, 0)) > 0) {
      for (ssize_t i = 0; i < got; ++i) {
        of_parent += octets[i] == 'p';
        of_child += octets[i] == 'c';
      }
    }
    close(fd);
    send_word(words, of_parent);
    send_word(words, of_child);
  }
}

/* Sends the pattern as far as it is told, again and again; ends at a word below 0. */
static void speak(int words) {
  const int listener = listen_and_tell(words);
  const int fd = serve_next(listener);
  long said = 0;
  for (int next; (next = read_word(words)) >= 0; said += next) {
    if (send_pattern(fd, (uint64_t)said, next) != next) break;
  }
  close(fd);
}

static int connect_to_peer(int port) {
  const struct sockaddr_storage name = loopback(port);
  return connect_to(&name);
}

static void end_now(struct peer* peer) {
  kill(peer->pid, SIGKILL);
  end_peer(peer);
}

static pid_t start(void) {
  const pid_t child = fork();
  need(child >= 0, "fork");
  if (child == 0) alarm(PATIENCE_S);
  return child;
}

static int end_of(pid_t child) {
  int status = -1;
  need(waitpid(child, &status, 0) == child, "waitpid");
  return status;
}

static int send_all(int fd, char octet, long count) {
  char piece[5000];
  memset(piece, octet, sizeof piece);
  while (count > 0) {
    const size_t wanted = count < (long)sizeof piece ? (size_t)count : sizeof piece;
    const ssize_t part = send(fd, piece, wanted, MSG_NOSIGNAL);
    if (part < 0) return -1;
    count -= part;
  }
  return 0;
}

static void moment(void) {
  usleep(100000);
}

/* Its octets still go without a detour. */
static int is_undisturbed(int fd) {
  int mode = 0, room = 0;
  socklen_t size = sizeof mode;
  if (getsockopt(fd, SOL_IWARP, IWARP_MODE, &mode, &size) != 0 || mode == 0) return 1;
  size = sizeof room;
  need(syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_SNDBUF, &room, &size) == 0, "getsockopt");
  return room < 16384;
}

static void the_parent_reads_and_the_child_writes(void) {
  struct peer peer = start_peer(echo);
  const int fd = connect_to_peer(peer_port(&peer));
  const pid_t child = start();
  if (child == 0) {
    const long sent = send_pattern(fd, 0, MUCH);
    shutdown(fd, SHUT_WR);
    exit(sent == MUCH ? 0 : 1);
  }
  SAY(receive_pattern(fd, 0, MUCH));
  SAY(recv(fd, octets, 1, 0));
  SAY(end_of(child));
  close(fd);
  end_now(&peer);
}

static void the_child_reads_and_the_parent_writes(void) {
  struct peer peer = start_peer(echo);
  const int fd = connect_to_peer(peer_port(&peer));
  const pid_t child = start();
  if (child == 0) {
    const long got = receive_pattern(fd, 0, MUCH);
    exit(got == MUCH && recv(fd, octets, 1, 0) == 0 ? 0 : 1);
  }
  SAY(send_pattern(fd, 0, MUCH));
  SAY(shutdown(fd, SHUT_WR));
  SAY(end_of(child));
  SAY(recv(fd, octets, 1, 0));
  close(fd);
  end_now(&peer);
}

static void both_write(void) {
  struct peer peer = start_peer(count);
  const int port = peer_port(&peer);
  for (int i = 0; i < 10; ++i) {
    const int fd = connect_to_peer(port);
    send_word(peer.words, 1);
    const pid_t child = start();
    if (child == 0) exit(send_all(fd, 'c', 300000 + i));
    SAY(send_all(fd, 'p', 500000 + i));
    close(fd);
    SAY(end_of(child));
    SAY(read_word(peer.words));
    SAY(read_word(peer.words));
  }
  end_now(&peer);
}

static void two_children_write_too(void) {
  struct peer peer = start_peer(count);
  const int fd = connect_to_peer(peer_port(&peer));
  send_word(peer.words, 1);
  pid_t children[2];
  for (int i = 0; i < 2; ++i) {
    children[i] = start();
    if (children[i] == 0) {
      const pid_t grandchild = start();
      const int status = send_all(fd, 'c', 200000);
      if (grandchild == 0) exit(status);
      exit(status != 0 || end_of(grandchild) != 0);
    }
  }
  SAY(send_all(fd, 'p', 200000));
  close(fd);
  SAY(end_of(children[0]));
  SAY(end_of(children[1]));
  SAY(read_word(peer.words));
  SAY(read_word(peer.words));
  end_now(&peer);
}

/* Its octets begin with those that its parent's ring had when it began. */
static void the_child_reads_half_and_exits(void) {
  struct peer peer = start_peer(speak);
  const int fd = connect_to_peer(peer_port(&peer));
  send_word(peer.words, 600000);
  SAY(receive_pattern(fd, 0, 1000));
  const pid_t child = start();
  if (child == 0) exit(receive_pattern(fd, 1000, 300000) == 300000 ? 0 : 1);
  SAY(end_of(child));
  send_word(peer.words, 400000);
  SAY(receive_pattern(fd, 301000, 699000));
  send_word(peer.words, -1);
  SAY(recv(fd, octets, 1, 0));
  close(fd);
  SAY(end_peer(&peer));
}

/* How the parent waits when the child begins. */
static void by_recv(int fd) {
  SAY(recv(fd, octets, 10, 0));
}
static void by_read(int fd) {
  SAY(read(fd, octets, 10));
}
static void by_poll(int fd) {
  SAY(wait_for(fd, POLLIN));
  SAY(recv(fd, octets, 10, MSG_DONTWAIT));
}
static void by_poll_with_another(int fd) {
  int ends[2];
  need(pipe(ends) == 0, "pipe");
  struct pollfd both[] = {{ends[0], POLLIN, 0}, {fd, POLLIN, 0}};
  SAY(poll(both, 2, PATIENCE_S * 1000));
  SAY(both[0].revents);
  SAY(both[1].revents);
  SAY(recv(fd, octets, 10, MSG_DONTWAIT));
  close(ends[0]), close(ends[1]);
}
static void by_select(int fd) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(fd, &set);
  struct timeval limit = {PATIENCE_S, 0};
  SAY(select(fd + 1, &set, NULL, NULL, &limit));
  SAY(FD_ISSET(fd, &set) != 0);
  SAY(recv(fd, octets, 10, MSG_DONTWAIT));
}
static void by_epoll_as(int fd, uint32_t events) {
  const int epoll = epoll_create1(0);
  struct epoll_event event = {.events = events};
  SAY(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
  SAY(epoll_wait(epoll, &event, 1, PATIENCE_S * 1000));
  SAY(event.events == EPOLLIN);
  SAY(recv(fd, octets, 10, MSG_DONTWAIT));
  SAY(epoll_wait(epoll, &event, 1, 0));
  close(epoll);
}
static void by_epoll(int fd) {
  by_epoll_as(fd, EPOLLIN);
}
static void by_epoll_and_edges(int fd) {
  by_epoll_as(fd, EPOLLIN | EPOLLET);
}

static void while_the_parent_waits(void (*wait)(int fd)) {
  struct peer peer = start_peer(echo);
  const int fd = connect_to_peer(peer_port(&peer));
  const pid_t child = start();
  if (child == 0) {
    moment();
    exit(send(fd, "x", 1, 0) == 1 ? 0 : 1);
  }
  wait(fd);
  SAY(end_of(child));
  SAY(send(fd, "y", 1, 0));
  wait(fd);
  close(fd);
  end_now(&peer);
}
#define WHILE_WAITING(how)                         \
  static void while_the_parent_waits_##how(void) { \
    while_the_parent_waits(how);                   \
  }
WHILE_WAITING(by_recv)
WHILE_WAITING(by_read)
WHILE_WAITING(by_poll)
WHILE_WAITING(by_poll_with_another)
WHILE_WAITING(by_select)
WHILE_WAITING(by_epoll)
WHILE_WAITING(by_epoll_and_edges)

/* A set that watched it before the fork, and goes on. */
static void in_an_epoll_set(uint32_t events) {
  struct peer peer = start_peer(echo);
  const int fd = connect_to_peer(peer_port(&peer)), epoll = epoll_create1(0);
  struct epoll_event event = {.events = events};
  SAY(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
  for (int i = 0; i < 4; ++i) {
    const char octet = (char)('a' + i);
    if (i != 1 && i != 2) {
      SAY(send(fd, &octet, 1, 0));
    } else {
      const pid_t child = start();
      if (child == 0) exit(send(fd, &octet, 1, 0) == 1 ? 0 : 1);
      SAY(end_of(child));
    }
    do {
      event.events = 0;
      need(epoll_wait(epoll, &event, 1, PATIENCE_S * 1000) == 1, "epoll_wait");
    } while ((event.events & EPOLLIN) == 0);
    char got = 0;
    SAY(recv(fd, &got, 1, MSG_DONTWAIT));
    SAY(got == octet);
  }
  close(epoll), close(fd);
  end_now(&peer);
}
static void in_an_epoll_set_by_level(void) {
  in_an_epoll_set(EPOLLIN);
}
static void in_an_epoll_set_by_edge(void) {
  in_an_epoll_set(EPOLLIN | EPOLLOUT | EPOLLET);
}

/* The child waits with a set that its parent made. */
static void an_inherited_epoll_set(void) {
  struct peer peer = start_peer(echo);
  const int fd = connect_to_peer(peer_port(&peer)), epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  SAY(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
  const pid_t child = start();
  if (child == 0) {
    need(epoll_wait(epoll, &event, 1, PATIENCE_S * 1000) == 1, "epoll_wait");
    need(recv(fd, octets, 10, 0) == 5, "recv");
    exit(memcmp(octets, "hello", 5) != 0);
  }
  moment();
  SAY(send(fd, "hello", 5, 0));
  SAY(end_of(child));
  SAY(recv(fd, octets, 10, MSG_DONTWAIT));
  close(epoll), close(fd);
  end_now(&peer);
}

/* Half of what it wants has come when the child begins. */
static void while_the_parent_waits_for_all(void) {
  struct peer peer = start_peer(speak);
  const int fd = connect_to_peer(peer_port(&peer));
  const pid_t child = start();
  if (child == 0) {
    send_word(peer.words, 100);
    moment();
    need(send(fd, "", 0, 0) == 0, "send");
    send_word(peer.words, 100);
    exit(0);
  }
  char all[200];
  SAY(recv(fd, all, sizeof all, MSG_WAITALL));
  long right = 0;
  while (right < 200 && (unsigned char)all[right] == pattern_at((uint64_t)right)) ++right;
  SAY(right);
  SAY(end_of(child));
  send_word(peer.words, -1);
  SAY(recv(fd, octets, 1, 0));
  close(fd);
  SAY(end_peer(&peer));
}

/* Nobody reads, so the parent waits in the midst of a write. */
static void while_the_parent_sends(void) {
  struct peer peer = start_peer(count);
  const int fd = connect_to_peer(peer_port(&peer));
  static char much[8000000];
  memset(much, 'p', sizeof much);
  const pid_t child = start();
  if (child == 0) {
    moment();
    exit(send_all(fd, 'c', 1000));
  }
  moment(), moment();
  const pid_t starter = start();
  if (starter == 0) {
    moment(), moment();
    send_word(peer.words, 1);
    exit(0);
  }
  SAY(send(fd, much, sizeof much, 0));
  close(fd);
  SAY(end_of(child));
  SAY(end_of(starter));
  SAY(read_word(peer.words));
  SAY(read_word(peer.words));
  end_now(&peer);
}

static void* read_here(void* fd) {
  return (void*)(receive_pattern(*(int*)fd, 0, 200000));
}
static void* write_here(void* fd) {
  return (void*)(intptr_t)send_all(*(int*)fd, 'p', 300000);
}

/* Threads of the parent read and write when the child begins. */
static void while_threads_of_the_parent_work(void) {
  struct peer peer = start_peer(echo);
  const int port = peer_port(&peer);
  long well = 0;
  for (int i = 0; i < 20; ++i) {
    int fd = connect_to_peer(port);
    pthread_t reader;
    need(pthread_create(&reader, NULL, read_here, &fd) == 0, "pthread_create");
    const long before = send_pattern(fd, 0, 50000 + i * 1000);
    const pid_t child = start();
    if (child == 0) {
      const long rest = 200000 - before;
      _exit(send_pattern(fd, (uint64_t)before, rest) == rest ? 0 : 1);
    }
    void* got = NULL;
    pthread_join(reader, &got);
    if (end_of(child) == 0 && (long)got == 200000) ++well;
    close(fd);
  }
  SAY(well);
  end_now(&peer);
}

static void while_a_thread_of_the_parent_writes(void) {
  struct peer peer = start_peer(count);
  const int port = peer_port(&peer);
  long well = 0;
  for (int i = 0; i < 20; ++i) {
    int fd = connect_to_peer(port);
    pthread_t writer;
    need(pthread_create(&writer, NULL, write_here, &fd) == 0, "pthread_create");
    send_word(peer.words, 1);
    usleep((useconds_t)(i * 20));
    const pid_t child = start();
    if (child == 0) _exit(send_all(fd, 'c', 100000));
    void* failed = NULL;
    pthread_join(writer, &failed);
    const int status = end_of(child);
    close(fd);
    const int of_parent = read_word(peer.words), of_child = read_word(peer.words);
    if (failed == NULL && status == 0 && of_parent == 300000 && of_child == 100000) ++well;
  }
  SAY(well);
  end_now(&peer);
}

/* The parent closes when the child begins. */
static void while_the_parent_closes(void) {
  struct peer peer = start_peer(count);
  const int port = peer_port(&peer);
  long well = 0;
  for (int i = 0; i < 40; ++i) {
    const int fd = connect_to_peer(port);
    send_word(peer.words, 1);
    need(send_all(fd, 'p', 1000) == 0, "send");
    const pid_t child = start();
    if (child == 0) _exit(send_all(fd, 'c', 100000));
    usleep((useconds_t)(i * 10));
    close(fd);
    const int of_parent = read_word(peer.words), of_child = read_word(peer.words);
    if (of_parent == 1000 && of_child == 100000 && end_of(child) == 0) ++well;
  }
  SAY(well);
  end_now(&peer);
}

/* As rsync's two halves do: neither blocks, both wait with select. */
static int move_by_select(int fd, int writes) {
  static unsigned char piece[20000];
  for (long moved = 0; moved < MUCH;) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    struct timeval limit = {PATIENCE_S, 0};
    if (select(fd + 1, writes ? NULL : &set, writes ? &set : NULL, NULL, &limit) != 1) return 2;
    ssize_t part;
    if (writes) {
      for (size_t i = 0; i < sizeof piece; ++i) piece[i] = pattern_at((uint64_t)moved + i);
      const long left = MUCH - moved;
      part = write(fd, piece, left < (long)sizeof piece ? (size_t)left : sizeof piece);
    } else {
      part = read(fd, piece, sizeof piece);
      for (ssize_t i = 0; i < part; ++i) {
        if (piece[i] != pattern_at((uint64_t)moved + (uint64_t)i)) return 3;
      }
    }
    if (part < 0 && errno != EAGAIN) return 4;
    if (part > 0) moved += part;
  }
  return 0;
}
static void neither_blocks(void) {
  struct peer peer = start_peer(echo);
  const int fd = connect_to_peer(peer_port(&peer));
  SAY(fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK));
  const pid_t child = start();
  if (child == 0) exit(move_by_select(fd, 1));
  SAY(move_by_select(fd, 0));
  SAY(end_of(child));
  SAY(recv(fd, octets, 1, 0));
  close(fd);
  end_now(&peer);
}

static void the_child_is_killed(void) {
  struct peer peer = start_peer(echo);
  const int fd = connect_to_peer(peer_port(&peer));
  const pid_t child = start();
  if (child == 0) {
    need(send(fd, "c", 1, 0) == 1, "send");
    pause();
  }
  SAY(recv(fd, octets, 1, 0));
  kill(child, SIGKILL);
  SAY(end_of(child));
  const pid_t sender = start();
  if (sender == 0) exit(send_pattern(fd, 0, MUCH) == MUCH ? 0 : 1);
  SAY(receive_pattern(fd, 0, MUCH));
  SAY(end_of(sender));
  SAY(shutdown(fd, SHUT_WR));
  SAY(recv(fd, octets, 1, 0));
  close(fd);
  end_now(&peer);
}

/* The process that made the connection writes and ends, and its child still has it. */
static void the_parent_ends_first(void) {
  struct peer peer = start_peer(count);
  const int port = peer_port(&peer);
  int words[2];
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, words) == 0, "socketpair");
  const pid_t parent = start();
  if (parent == 0) {
    const int fd = connect_to_peer(port);
    send_word(peer.words, 1);
    const pid_t child = start();
    if (child == 0) {
      need(send_all(fd, 'c', 1000) == 0, "send");
      send_word(words[1], 1);
      need(read_word(words[1]) == 2, "word");
      _exit(0);
    }
    need(read_word(words[0]) == 1, "word");
    exit(send_all(fd, 'p', 700000));
  }
  SAY(end_of(parent));
  send_word(words[0], 2);
  SAY(read_word(peer.words));
  SAY(read_word(peer.words));
  close(words[0]), close(words[1]);
  end_now(&peer);
}

/* The process that made the connection is killed, and its child, which has used it too, is not. */
static void the_parent_is_killed(void) {
  struct peer peer = start_peer(echo);
  const int port = peer_port(&peer);
  int words[2];
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, words) == 0, "socketpair");
  const pid_t parent = start();
  if (parent == 0) {
    const int fd = connect_to_peer(port);
    const pid_t child = start();
    if (child != 0) {
      need(send(fd, "p", 1, 0) == 1, "send");
      for (;;) pause();
    }
    need(recv(fd, octets, 1, 0) == 1, "recv");
    send_word(words[1], 1);
    need(read_word(words[1]) == 1, "word");
    ssize_t got = send(fd, "c", 1, MSG_NOSIGNAL);
    if (got == 1) got = recv(fd, octets, 1, 0);
    send_word(words[1], (int)got);
    _exit(0);
  }
  SAY(read_word(words[0]));
  kill(parent, SIGKILL);
  SAY(end_of(parent));
  send_word(words[0], 1);
  const int got = read_word(words[0]);
  tell("the child's octet", got == 1 ? "came back" : "is lost");
  close(words[0]), close(words[1]);
  end_now(&peer);
}

/* It goes on with what its parent has not closed, in another program. */
static void exec_while_the_parent_keeps_it(void) {
  struct pair pair = open_ipv4_pair();
  const pid_t child = start();
  if (child == 0) {
    dup2(pair.server, 0), dup2(pair.server, 1);
    execlp("tr", "tr", "a-z", "A-Z", NULL);
    _exit(127);
  }
  SAY(send(pair.client, "upper", 5, 0));
  SAY(shutdown(pair.client, SHUT_WR));
  char answer[20] = "";
  SAY(recv(pair.client, answer, 5, MSG_WAITALL));
  TELL(answer);
  SAY(end_of(child));
  SAY(send(pair.server, "x", 1, 0));
  SAY(recv(pair.client, answer, 5, 0));
  close_pair(&pair);
}

/* Who does not use it leaves it as it was. */
static void a_child_that_does_not_use_it(void) {
  struct pair pair = open_ipv4_pair();
  SAY(fcntl(pair.client, F_SETFD, 0));
  for (int i = 0; i < 4; ++i) {
    const pid_t child = start();
    if (child == 0) {
      struct sockaddr_storage name = name_of(pair.client);
      if (i == 1) close(pair.client), close(pair.server);
      if (i == 2) execlp("true", "true", NULL);
      if (i == 3) name = name_of(dup(pair.client));
      _exit(name.ss_family == AF_INET ? 0 : 1);
    }
    SAY(end_of(child));
    SAY(is_undisturbed(pair.client) + is_undisturbed(pair.server));
    SAY(send_pattern(pair.client, 0, 20000) + receive_pattern(pair.server, 0, 20000));
    SAY(send_pattern(pair.server, 0, 20000) + receive_pattern(pair.client, 0, 20000));
  }
  close_pair(&pair);
}

static void the_child_shuts_it(void) {
  struct peer peer = start_peer(echo);
  const int fd = connect_to_peer(peer_port(&peer));
  const pid_t child = start();
  if (child == 0) {
    moment();
    exit(shutdown(fd, SHUT_RDWR));
  }
  SAY(recv(fd, octets, 10, 0));
  SAY(end_of(child));
  SAY(send(fd, "x", 1, MSG_NOSIGNAL));
  SAY(recv(fd, octets, 10, 0));
  close(fd);
  end_now(&peer);
}

/* Whoever waits hears the peer's end. */
static void the_peer_ends_while_both_wait(void) {
  struct peer peer = start_peer(speak);
  const int fd = connect_to_peer(peer_port(&peer));
  const pid_t child = start();
  if (child == 0) exit(recv(fd, octets, 10, 0) == 0 ? 0 : 1);
  const pid_t second = start();
  if (second == 0) {
    moment();
    send_word(peer.words, -1);
    exit(0);
  }
  SAY(recv(fd, octets, 10, 0));
  SAY(end_of(child));
  SAY(end_of(second));
  close(fd);
  SAY(end_peer(&peer));
}

/* The peer has ended when the child begins. */
static void the_peer_has_ended(void) {
  struct peer peer = start_peer(speak);
  const int fd = connect_to_peer(peer_port(&peer)), epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};
  SAY(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
  send_word(peer.words, 1000);
  SAY(receive_pattern(fd, 0, 1000));
  send_word(peer.words, -1);
  do {
    need(epoll_wait(epoll, &event, 1, PATIENCE_S * 1000) == 1, "epoll_wait");
  } while ((event.events & EPOLLRDHUP) == 0);
  const pid_t child = start();
  if (child == 0) exit(recv(fd, octets, 10, 0) == 0 ? 0 : 1);
  SAY(end_of(child));
  SAY(recv(fd, octets, 10, 0));
  close(epoll), close(fd);
  SAY(end_peer(&peer));
}

/* Being stopped for a while, too, ends a recv with a limit of time. */
static ssize_t wait_in_vain(int fd) {
  ssize_t got;
  do {
    got = recv(fd, octets, 1, 0);
  } while (got < 0 && errno == EINTR);
  return got;
}

/* What was set before holds for both, and names stay. */
static void options_and_names(void) {
  struct peer peer = start_peer(echo);
  const int fd = connect_to_peer(peer_port(&peer));
  const struct timeval limit = {0, 50000};
  SAY(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
  const struct sockaddr_storage before = name_of(fd);
  const pid_t child = start();
  if (child == 0) {
    need(send(fd, "x", 1, 0) == 1 && wait_for(fd, POLLIN) != 0, "there and back");
    need(recv(fd, octets, 2, 0) == 1, "an octet");
    need(wait_in_vain(fd) < 0 && errno == EAGAIN, "in time");
    const struct sockaddr_storage name = name_of(fd);
    exit(memcmp(&name, &before, sizeof(struct sockaddr_in)) != 0);
  }
  SAY(end_of(child));
  SAY(wait_in_vain(fd));
  const struct sockaddr_storage after = name_of(fd);
  SAY(memcmp(&after, &before, sizeof(struct sockaddr_in)));
  struct sockaddr_storage name;
  socklen_t size = sizeof name;
  SAY(getpeername(fd, (struct sockaddr*)&name, &size));
  SAY(name.ss_family == AF_INET);
  int value = 0;
  size = sizeof value;
  SAY(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &size));
  SAY(value == SOCK_STREAM);
  value = 1;
  SAY(setsockopt(fd, IPPROTO_TCP, 1, &value, sizeof value));
  SAY(ioctl(fd, FIONREAD, &value));
  SAY(value);
  SAY(send(fd, "xyz", 3, 0));
  SAY(wait_for(fd, POLLIN) != 0);
  SAY(recv(fd, octets, 10, MSG_PEEK));
  SAY(recv(fd, octets, 10, 0));
  const int second = dup(fd);
  close(fd);
  SAY(send(second, "x", 1, 0));
  SAY(wait_for(second, POLLIN) != 0);
  SAY(recv(second, octets, 1, 0));
  close(second);
  end_now(&peer);
}

/* FILEs that were opened before and after. */
static void by_stdio(void) {
  struct peer peer = start_peer(echo);
  const int fd = connect_to_peer(peer_port(&peer));
  FILE* file = fdopen(fd, "r+");
  need(file != NULL, "fdopen");
  setvbuf(file, NULL, _IONBF, 0);
  const pid_t child = start();
  if (child == 0) {
    FILE* own = fdopen(dup(fd), "r+");
    need(own != NULL, "fdopen");
    fprintf(own, "a line\n");
    fflush(own);
    char line[20] = "";
    need(fgets(line, sizeof line, own) != NULL, "fgets");
    exit(strcmp(line, "a line\n"));
  }
  SAY(end_of(child));
  SAY(fprintf(file, "another\n"));
  char line[20] = "";
  SAY(fgets(line, sizeof line, file) != NULL);
  TELL(line);
  fclose(file);
  end_now(&peer);
}

const struct test_case shared_cases[] = {
    {"the_parent_reads_and_the_child_writes", the_parent_reads_and_the_child_writes},
    {"the_child_reads_and_the_parent_writes", the_child_reads_and_the_parent_writes},
    {"both_write", both_write},
    {"two_children_write_too", two_children_write_too},
    {"the_child_reads_half_and_exits", the_child_reads_half_and_exits},
    {"while_the_parent_waits_by_recv", while_the_parent_waits_by_recv},
    {"while_the_parent_waits_by_read", while_the_parent_waits_by_read},
    {"while_the_parent_waits_by_poll", while_the_parent_waits_by_poll},
    {"while_the_parent_waits_by_poll_with_another", while_the_parent_waits_by_poll_with_another},
    {"while_the_parent_waits_by_select", while_the_parent_waits_by_select},
    {"while_the_parent_waits_by_epoll", while_the_parent_waits_by_epoll},
    {"while_the_parent_waits_by_epoll_and_edges", while_the_parent_waits_by_epoll_and_edges},
    {"in_an_epoll_set_by_level", in_an_epoll_set_by_level},
    {"in_an_epoll_set_by_edge", in_an_epoll_set_by_edge},
    {"an_inherited_epoll_set", an_inherited_epoll_set},
    {"while_the_parent_waits_for_all", while_the_parent_waits_for_all},
    {"while_the_parent_sends", while_the_parent_sends},
    {"while_threads_of_the_parent_work", while_threads_of_the_parent_work},
    {"while_a_thread_of_the_parent_writes", while_a_thread_of_the_parent_writes},
    {"while_the_parent_closes", while_the_parent_closes},
    {"neither_blocks", neither_blocks},
    {"the_child_is_killed", the_child_is_killed},
    {"the_parent_ends_first", the_parent_ends_first},
    {"the_parent_is_killed", the_parent_is_killed},
    {"exec_while_the_parent_keeps_it", exec_while_the_parent_keeps_it},
    {"a_child_that_does_not_use_it", a_child_that_does_not_use_it},
    {"the_child_shuts_it", the_child_shuts_it},
    {"the_peer_ends_while_both_wait", the_peer_ends_while_both_wait},
    {"the_peer_has_ended", the_peer_has_ended},
    {"options_and_names", options_and_names},
    {"by_stdio", by_stdio},
    {NULL, NULL},
};

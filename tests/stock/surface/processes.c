/* Descriptors and processes: dup, fork, exec, passing. */
#define _GNU_SOURCE
#include "surface.h"

#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>

static char octets[4096];
extern char** environ;

static void duplicates(void) {
  struct pair pair = open_ipv4_pair();
  const int second = dup(pair.client);
  SAY(send(second, "1", 1, 0));
  SAY(close(pair.client));
  SAY(send(pair.client, "1", 1, MSG_NOSIGNAL));
  SAY(send(second, "2", 1, 0));
  const int at = fcntl(second, F_DUPFD, 200);
  SAY(at);
  SAY(fcntl(fcntl(second, F_DUPFD_CLOEXEC, 300), F_GETFD));
  SAY(close(300));
  SAY(dup2(at, 210));
  SAY(dup2(at, at));
  SAY(dup3(at, 220, O_CLOEXEC));
  SAY(fcntl(220, F_GETFD));
  SAY(dup3(at, at, 0));
  SAY(dup2(555, 230));
  SAY(dup2(at, -1));
  SAY(close(second));
  SAY(close(at));
  SAY(close(210));
  SAY(write(220, "3", 1));
  SAY(recv(pair.server, octets, 3, MSG_WAITALL));
  SAY(fcntl(220, F_SETFL, O_NONBLOCK));
  SAY(read(220, octets, 1));
  SAY(close(220));
  SAY(recv(pair.server, octets, 1, 0));
  close(pair.server), close(pair.listener);
}

/* dup2 over a socket ends the one that was there. */
static void one_takes_the_place_of_another(void) {
  struct pair a = open_ipv4_pair(), b = open_ipv4_pair();
  SAY(dup2(a.client, b.client) == b.client);
  SAY(recv(b.server, octets, 1, 0));
  SAY(send(b.client, "x", 1, 0));
  SAY(recv(a.server, octets, 1, 0));
  const int null = open("/dev/null", O_RDWR);
  SAY(dup2(null, a.client) == a.client);
  SAY(write(a.client, "gone", 4));
  SAY(send(b.client, "y", 1, 0));
  SAY(recv(a.server, octets, 10, 0));
  SAY(dup2(null, b.client) == b.client);
  SAY(recv(a.server, octets, 10, 0));
  close(null);
  close_pair(&a);
  close_pair(&b);
}

static void close_on_exec(void) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  SAY(fcntl(fd, F_GETFD));
  close(fd);
  fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  SAY(fcntl(fd, F_GETFD));
  SAY(fcntl(fd, F_GETFL) & O_NONBLOCK);
  close(fd);
  struct pair pair = open_ipv4_pair();
  SAY(fcntl(pair.client, F_GETFD));
  SAY(fcntl(pair.server, F_GETFD));
  SAY(fcntl(pair.client, F_GETFL) & (O_NONBLOCK | O_ACCMODE));
  SAY(fcntl(pair.client, F_SETFD, 0));
  SAY(fcntl(pair.client, F_GETFD));
  close_pair(&pair);
}

static void passing_a_descriptor(void) {
  struct pair pair = open_ipv4_pair();
  struct iovec part = {"x", 1};
  union {
    char room[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control;
  memset(&control, 0, sizeof control);
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control.room,
                           .msg_controllen = sizeof control.room};
  struct cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &pair.listener, sizeof(int));
  SAY(sendmsg(pair.client, &message, 0));
  SAY(recv(pair.server, octets, 1, MSG_DONTWAIT));
  close_pair(&pair);
}

/* To another process, by a UNIX socket. */
static void passing_a_socket(void) {
  struct pair pair = open_ipv4_pair();
  int ends[2];
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
  struct iovec part = {"x", 1};
  union {
    char room[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control;
  for (int i = 0; i < 2; ++i) {
    memset(&control, 0, sizeof control);
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof control.room};
    struct cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), i == 0 ? &pair.client : &ends[1], sizeof(int));
    SAY(sendmsg(ends[0], &message, 0));
  }
  SAY(recv(ends[1], octets, 2, MSG_DONTWAIT) > 0);
  SAY(send(pair.client, "y", 1, 0));
  SAY(recv(pair.server, octets, 1, 0));
  close(ends[0]), close(ends[1]);
  close_pair(&pair);
}

/* What a child does with a connection that its parent accepted. */
static void serve_once(int fd) {
  const ssize_t got = recv(fd, octets, 5, MSG_WAITALL);
  struct sockaddr_storage name;
  socklen_t size = sizeof name;
  const int named = getpeername(fd, (struct sockaddr*)&name, &size);
  snprintf(octets, sizeof octets, "%zd %d %d.", got, named, name.ss_family);
  need(send(fd, octets, strlen(octets), 0) > 0, "send");
}

/* Whatever its parent's other threads are about when it is forked, a child has sockets too. */
static atomic_int stop;
static void* make_sockets(void* unused) {
  while (!atomic_load(&stop)) {
    int fds[16];
    for (int i = 0; i < 16; ++i) fds[i] = socket(AF_INET, SOCK_STREAM, 0);
    for (int i = 0; i < 16; ++i) close(fds[i]);
  }
  return unused;
}
static void* wait_for_nothing(void* pair) {
  const int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  const struct timespec moment = {0, 1000};
  while (!atomic_load(&stop)) {
    epoll_ctl(epoll, EPOLL_CTL_ADD, ((struct pair*)pair)->client, &event);
    epoll_pwait2(epoll, &event, 1, &moment, NULL);
    epoll_ctl(epoll, EPOLL_CTL_DEL, ((struct pair*)pair)->client, NULL);
  }
  close(epoll);
  return NULL;
}
static void forked_from_among_threads(void) {
  struct pair pair = open_ipv4_pair();
  pthread_t threads[3];
  atomic_store(&stop, 0);
  for (int i = 0; i < 3; ++i) {
    pthread_create(&threads[i], NULL, i == 0 ? wait_for_nothing : make_sockets, &pair);
  }
  long well = 0;
  for (int i = 0; i < 300; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(PATIENCE_S);
      int fds[16];
      for (int k = 0; k < 16; ++k) fds[k] = socket(AF_INET, SOCK_STREAM, 0);
      for (int k = 0; k < 16; ++k) close(fds[k]);
      const int epoll = epoll_create1(0);
      struct epoll_event event = {.events = EPOLLIN};
      epoll_ctl(epoll, EPOLL_CTL_ADD, pair.client, &event);
      epoll_wait(epoll, &event, 1, 1);
      _exit(0);
    }
    int status = -1;
    if (waitpid(child, &status, 0) == child && status == 0) ++well;
    if (status != 0) break;
  }
  SAY(well);
  atomic_store(&stop, 1);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  close_pair(&pair);
}

/* When a child begins to take connections its parent has no descriptor left, for a while. */
static void a_child_accepts_when_descriptors_are_short(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  int words[2];
  need(pipe(words) == 0, "pipe");
  const int client = connect_to(&name);
  SAY(wait_for(listener, POLLIN));
  const pid_t child = fork();
  if (child == 0) {
    close(client);
    need(read(words[0], octets, 1) == 1, "read");
    const int server = accept(listener, NULL, NULL);
    _exit(send(server, "x", 1, 0) == 1 ? 0 : 1);
  }
  struct rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  const struct rlimit low = {100, before.rlim_max};
  need(setrlimit(RLIMIT_NOFILE, &low) == 0, "setrlimit");
  int held[100], count = 0;
  while ((held[count] = dup(0)) >= 0) ++count;
  need(write(words[1], "x", 1) == 1, "write");
  usleep(300000);
  need(setrlimit(RLIMIT_NOFILE, &before) == 0, "setrlimit");
  while (count > 0) close(held[--count]);
  SAY(recv(client, octets, 1, 0));
  int status = -1;
  SAY(waitpid(child, &status, 0) == child);
  SAY(status);
  close(client), close(listener), close(words[0]), close(words[1]);
}

/* A child that takes a connection, writes, and is gone before its parent has looked. */
static void quick_children(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  long well = 0;
  for (int i = 0; i < 40; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const int server = accept(listener, NULL, NULL);
      _exit(write(server, "x", 1) == 1 ? 0 : 1);
    }
    const int client = connect_to(&name);
    int status = -1;
    if (recv(client, octets, 2, MSG_WAITALL) == 1) ++well;
    if (waitpid(child, &status, 0) != child || status != 0) break;
    close(client);
  }
  SAY(well);
  close(listener);
}

static void accept_then_fork(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  for (int i = 0; i < 3; ++i) {
    const int client = connect_to(&name);
    const int server = accept(listener, NULL, NULL);
    const pid_t child = fork();
    if (child == 0) {
      close(listener), close(client);
      serve_once(server);
      exit(0);
    }
    close(server);
    SAY(send(client, "hello", 5, 0));
    char answer[20] = "";
    SAY(recv(client, answer, 6, MSG_WAITALL));
    TELL(answer);
    SAY(recv(client, answer, 6, 0));
    int status = 0;
    SAY(waitpid(child, &status, 0) == child);
    SAY(status);
    close(client);
  }
  close(listener);
}

/* As Python's subprocess does it. */
static void a_vforked_child_closes_all(void) {
  struct pair pair = open_ipv4_pair();
  const pid_t child = vfork();
  if (child == 0) {
    for (int fd = 3; fd < 256; ++fd) close(fd);
    execl("/bin/true", "true", (char*)NULL);
    _exit(127);
  }
  int status = 0;
  SAY(waitpid(child, &status, 0) == child);
  SAY(status);
  SAY(send_pattern(pair.client, 0, 20000) + receive_pattern(pair.server, 0, 20000));
  SAY(send_pattern(pair.server, 0, 20000) + receive_pattern(pair.client, 0, 20000));
  close_pair(&pair);
}

/* A child that only writes hears that its peer has gone. */
static void a_child_writes_to_a_peer_that_leaves(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  const int client = connect_to(&name);
  const int server = accept(listener, NULL, NULL);
  const pid_t child = fork();
  if (child == 0) {
    static const char words[4096];
    close(listener), close(client);
    signal(SIGPIPE, SIG_IGN);
    while (send(server, words, sizeof words, 0) > 0) {
    }
    exit(errno == EPIPE || errno == ECONNRESET ? 0 : errno);
  }
  close(server);
  char some[100];
  SAY(recv(client, some, sizeof some, MSG_WAITALL));
  close(client);
  int status = 0;
  SAY(waitpid(child, &status, 0) == child);
  SAY(status);
  close(listener);
}

static void accept_then_fork_twice(void) {
  struct pair pair = open_ipv4_pair();
  const pid_t child = fork();
  if (child == 0) {
    const pid_t grandchild = fork();
    if (grandchild != 0) _exit(0);
    close(pair.listener), close(pair.client);
    serve_once(pair.server);
    exit(0);
  }
  waitpid(child, NULL, 0);
  close(pair.server);
  SAY(send(pair.client, "hello", 5, 0));
  char answer[20] = "";
  SAY(recv(pair.client, answer, 6, MSG_WAITALL));
  TELL(answer);
  SAY(recv(pair.client, answer, 6, 0));
  close(pair.client), close(pair.listener);
}

static void exec_with_a_socket(void) {
  struct pair pair = open_ipv4_pair();
  const pid_t child = fork();
  if (child == 0) {
    dup2(pair.server, 0), dup2(pair.server, 1);
    execlp("tr", "tr", "a-z", "A-Z", NULL);
    _exit(127);
  }
  close(pair.server);
  SAY(send(pair.client, "upper", 5, 0));
  SAY(shutdown(pair.client, SHUT_WR));
  char answer[20] = "";
  SAY(recv(pair.client, answer, 6, MSG_WAITALL));
  TELL(answer);
  int status = -1;
  SAY(waitpid(child, &status, 0) == child);
  SAY(status);
  close(pair.client), close(pair.listener);
}

static void spawn_with_a_socket(void) {
  struct pair pair = open_ipv4_pair();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pair.server, 0);
  posix_spawn_file_actions_adddup2(&actions, pair.server, 1);
  char* words[] = {"tr", "a-z", "A-Z", NULL};
  pid_t child = 0;
  SAY(posix_spawnp(&child, "tr", &actions, NULL, words, environ));
  close(pair.server);
  SAY(send(pair.client, "upper", 5, 0));
  SAY(shutdown(pair.client, SHUT_WR));
  char answer[20] = "";
  SAY(recv(pair.client, answer, 6, MSG_WAITALL));
  TELL(answer);
  SAY(waitpid(child, NULL, 0) == child);
  close(pair.client), close(pair.listener);
}

/* A worker that was forked with the listener: accepts `count` connections, says who it is. */
static void accept_and_serve(int listener, int count) {
  for (int i = 0; i < count; ++i) {
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    const int fd = accept(listener, (struct sockaddr*)&name, &size);
    need(fd >= 0, "accept in a worker");
    need(size == sizeof(struct sockaddr_in), "the peer's name");
    serve_once(fd);
    close(fd);
  }
}

static void ask(const struct sockaddr_storage* name) {
  const int client = connect_to(name);
  char answer[20] = "";
  SAY(send(client, "hello", 5, 0));
  SAY(recv(client, answer, 6, MSG_WAITALL));
  TELL(answer);
  SAY(recv(client, answer, 6, 0));
  close(client);
}

static void fork_then_accept(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  pid_t workers[3];
  for (int i = 0; i < 3; ++i) {
    workers[i] = fork();
    if (workers[i] != 0) continue;
    accept_and_serve(listener, 100);
    exit(0);
  }
  for (int i = 0; i < 12; ++i) ask(&name);
  for (int i = 0; i < 3; ++i) {
    kill(workers[i], SIGKILL);
    SAY(waitpid(workers[i], NULL, 0) == workers[i]);
  }
  close(listener);
}

/* Workers that wait with epoll and do not block, as nginx's. */
static void fork_then_epoll(void) {
  const int listener = listen_on(AF_INET);
  fcntl(listener, F_SETFL, O_NONBLOCK);
  const struct sockaddr_storage name = name_of(listener);
  pid_t workers[2];
  for (int i = 0; i < 2; ++i) {
    workers[i] = fork();
    if (workers[i] != 0) continue;
    const int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE};
    need(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) == 0, "epoll_ctl");
    for (;;) {
      need(epoll_wait(epoll, &event, 1, -1) == 1, "epoll_wait");
      const int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0 && errno == EAGAIN) continue; /* the other was faster */
      need(fd >= 0, "accept4");
      need(wait_for(fd, POLLIN) != 0, "octets");
      serve_once(fd);
      close(fd);
    }
  }
  for (int i = 0; i < 8; ++i) ask(&name);
  for (int i = 0; i < 2; ++i) {
    kill(workers[i], SIGKILL);
    SAY(waitpid(workers[i], NULL, 0) == workers[i]);
  }
  close(listener);
}

/* The parent closes its listener after the fork; the child goes on with it. */
static void the_child_keeps_the_listener(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  const pid_t child = fork();
  if (child == 0) {
    accept_and_serve(listener, 2);
    exit(0);
  }
  close(listener);
  ask(&name);
  ask(&name);
  int status = -1;
  SAY(waitpid(child, &status, 0) == child);
  SAY(status);
}

/* The child opens connections of its own. */
static void a_child_connects(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  close(connect_to(&name));
  close(accept(listener, NULL, NULL));
  const pid_t child = fork();
  if (child == 0) {
    const int fd = connect_to(&name);
    need(send_pattern(fd, 0, 300000) == 300000, "send");
    exit(0);
  }
  const int server = accept(listener, NULL, NULL);
  SAY(receive_pattern(server, 0, 300000));
  SAY(recv(server, octets, 1, 0));
  int status = -1;
  SAY(waitpid(child, &status, 0) == child);
  SAY(status);
  close(server), close(listener);
}

const struct test_case processes_cases[] = {
    {"duplicates", duplicates},
    {"one_takes_the_place_of_another", one_takes_the_place_of_another},
    {"close_on_exec", close_on_exec},
    {"passing_a_descriptor", passing_a_descriptor},
    {"passing_a_socket", passing_a_socket},
    {"forked_from_among_threads", forked_from_among_threads},
    {"a_child_accepts_when_descriptors_are_short", a_child_accepts_when_descriptors_are_short},
    {"quick_children", quick_children},
    {"accept_then_fork", accept_then_fork},
    {"accept_then_fork_twice", accept_then_fork_twice},
    {"a_vforked_child_closes_all", a_vforked_child_closes_all},
    {"a_child_writes_to_a_peer_that_leaves", a_child_writes_to_a_peer_that_leaves},
    {"exec_with_a_socket", exec_with_a_socket},
    {"spawn_with_a_socket", spawn_with_a_socket},
    {"fork_then_accept", fork_then_accept},
    {"fork_then_epoll", fork_then_epoll},
    {"the_child_keeps_the_listener", the_child_keeps_the_listener},
    {"a_child_connects", a_child_connects},
    {NULL, NULL},
};

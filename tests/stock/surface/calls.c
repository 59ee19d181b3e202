/* What calls answer that are made in the wrong place: wrong descriptors, states and arguments. */
#define _GNU_SOURCE
#include "surface.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

static char octets[64];

static void all_calls_on(int fd) {
  struct sockaddr_storage name;
  socklen_t size = sizeof name;
  struct sockaddr* at = (struct sockaddr*)&name;
  struct iovec part = {octets, sizeof octets};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  struct mmsghdr messages = {message, 0};
  int value = 1;
  socklen_t value_size = sizeof value;
  const struct sockaddr_storage target = loopback(9);
  SAY(bind(fd, (const struct sockaddr*)&target, sizeof(struct sockaddr_in)));
  SAY(listen(fd, 5));
  SAY(accept(fd, NULL, NULL));
  SAY(accept4(fd, NULL, NULL, SOCK_CLOEXEC));
  SAY(connect(fd, (const struct sockaddr*)&target, sizeof(struct sockaddr_in)));
  SAY(shutdown(fd, SHUT_RDWR));
  SAY(getsockname(fd, at, &size));
  SAY(getpeername(fd, at, &size));
  SAY(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, sizeof value));
  SAY(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, &value_size));
  SAY(send(fd, octets, 1, MSG_NOSIGNAL));
  SAY(sendto(fd, octets, 1, MSG_NOSIGNAL, NULL, 0));
  SAY(sendmsg(fd, &message, MSG_NOSIGNAL));
  SAY(sendmmsg(fd, &messages, 1, MSG_NOSIGNAL));
  SAY(recv(fd, octets, 1, MSG_DONTWAIT));
  SAY(recvfrom(fd, octets, 1, MSG_DONTWAIT, NULL, NULL));
  SAY(recvmsg(fd, &message, MSG_DONTWAIT));
  SAY(recvmmsg(fd, &messages, 1, MSG_DONTWAIT, NULL));
}

static void a_number_that_is_closed(void) {
  struct pair pair = open_ipv4_pair();
  const int fd = pair.client;
  close_pair(&pair);
  all_calls_on(fd);
  SAY(read(fd, octets, 1));
  SAY(write(fd, octets, 1));
  SAY(close(fd));
  SAY(dup(fd));
  SAY(fcntl(fd, F_GETFL));
  struct pollfd one = {fd, POLLIN, 0};
  SAY(poll(&one, 1, 0));
  SAY(one.revents == POLLNVAL);
}

static void a_number_that_never_was(void) {
  all_calls_on(-1);
  all_calls_on(1000000);
}

static void no_socket(void) {
  const int fd = open("/dev/null", O_RDWR);
  all_calls_on(fd);
  close(fd);
}

static void a_fresh_socket(void) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_storage name;
  socklen_t size = sizeof name;
  SAY(getpeername(fd, (struct sockaddr*)&name, &size));
  SAY(accept(fd, NULL, NULL));
  SAY(shutdown(fd, SHUT_RDWR));
  SAY(send(fd, octets, 1, MSG_NOSIGNAL));
  SAY(recv(fd, octets, 1, MSG_DONTWAIT));
  struct pollfd one = {fd, POLLIN | POLLOUT, 0};
  SAY(poll(&one, 1, 0));
  SAY(one.revents);
  SAY(bind(fd, (struct sockaddr*)&name, 3));
  struct sockaddr_storage six;
  memset(&six, 0, sizeof six);
  six.ss_family = AF_INET6;
  SAY(bind(fd, (struct sockaddr*)&six, sizeof(struct sockaddr_in6)));
  SAY(connect(fd, (struct sockaddr*)&name, 1));
  SAY(close(fd));
}

static void a_listener(void) {
  const int fd = listen_on(AF_INET);
  struct sockaddr_storage name = name_of(fd);
  socklen_t size = sizeof name;
  SAY(fcntl(fd, F_SETFL, O_NONBLOCK));
  SAY(accept(fd, NULL, NULL));
  SAY(accept4(fd, NULL, NULL, 0x40000000));
  SAY(send(fd, octets, 1, MSG_NOSIGNAL));
  SAY(recv(fd, octets, 1, 0));
  SAY(connect(fd, (struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  SAY(bind(fd, (struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  SAY(listen(fd, 10));
  SAY(getpeername(fd, (struct sockaddr*)&name, &size));
  int other = socket(AF_INET, SOCK_STREAM, 0);
  name = name_of(fd);
  SAY(bind(other, (struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  SAY(close(other));
  SAY(close(fd));
}

static void a_port_where_nobody_listens(void) {
  const int was = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(was);
  close(was);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  SAY(connect(fd, (const struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  SAY(send(fd, octets, 1, MSG_NOSIGNAL));
  int error = 0;
  socklen_t size = sizeof error;
  SAY(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
  SAY(error);
  /* It may try again. */
  SAY(connect(fd, (const struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  SAY(close(fd));
  const int later = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  const int started = connect(later, (const struct sockaddr*)&name, sizeof(struct sockaddr_in));
  need(started == -1 && (errno == EINPROGRESS || errno == ECONNREFUSED), "connect");
  if (errno == EINPROGRESS) {
    const short events = wait_for(later, POLLOUT);
    tell("it ends in an error", (events & POLLERR) != 0 ? "yes" : "no");
    SAY(getsockopt(later, SOL_SOCKET, SO_ERROR, &error, &size));
    tell("which is", strerrorname_np(error));
  }
  SAY(close(later));
}

static void connected_already(void) {
  struct pair pair = open_ipv4_pair();
  struct sockaddr_storage name = name_of(pair.listener);
  SAY(connect(pair.client, (struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  SAY(listen(pair.client, 5));
  SAY(accept(pair.client, NULL, NULL));
  SAY(bind(pair.client, (struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  SAY(shutdown(pair.client, 77));
  close_pair(&pair);
}

/* The next call tells how an attempt ended that nobody waited for, once. */
static void connecting_and_asking_again(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  const struct sockaddr* to = (const struct sockaddr*)&name;
  for (int round = 0; round < 2; ++round) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    SAY(connect(fd, to, sizeof(struct sockaddr_in)));
    SAY((wait_for(fd, POLLOUT) & POLLOUT) != 0);
    SAY(connect(fd, to, sizeof(struct sockaddr_in)));
    if (round == 0) SAY(connect(fd, to, sizeof(struct sockaddr_in)));
    close(fd);
    close(listener); /* the second is refused */
  }
}

static void too_much_or_nothing(void) {
  struct pair pair = open_ipv4_pair();
  static struct iovec parts[1025];
  for (int i = 0; i < 1025; ++i) parts[i] = (struct iovec){octets, 1};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 1025};
  SAY(sendmsg(pair.client, &message, 0));
  SAY(recvmsg(pair.server, &message, MSG_DONTWAIT));
  message.msg_iovlen = 1024;
  SAY(sendmsg(pair.client, &message, 0));
  SAY(recv(pair.server, octets, 64, 0));
  int mtu = 0, error = 0;
  socklen_t size = sizeof mtu;
  SAY(getsockopt(pair.client, IPPROTO_IP, IP_MTU, &mtu, &size));
  SAY(mtu > 500);
  size = (socklen_t)-1;
  SAY(getsockopt(pair.client, SOL_SOCKET, SO_ERROR, &error, &size));
  signal(SIGPIPE, SIG_IGN);
  SAY(send(pair.client, octets, 0, 0));
  SAY(write(pair.client, octets, 0));
  SAY(shutdown(pair.client, SHUT_WR));
  parts[0].iov_len = message.msg_iovlen = 0;
  SAY(send(pair.client, octets, 0, 0));
  SAY(write(pair.client, octets, 0));
  SAY(writev(pair.client, parts, 1));
  SAY(sendmsg(pair.client, &message, 0));
  close_pair(&pair);
}

static void names(void) {
  struct pair pair = open_ipv4_pair();
  struct sockaddr_in a, b, cut;
  socklen_t size = sizeof a;
  SAY(getsockname(pair.client, (struct sockaddr*)&a, &size));
  SAY(size);
  SAY(getpeername(pair.server, (struct sockaddr*)&b, &size));
  SAY(memcmp(&a, &b, sizeof a) == 0);
  size = sizeof a;
  SAY(getpeername(pair.client, (struct sockaddr*)&a, &size));
  SAY(getsockname(pair.server, (struct sockaddr*)&b, &size));
  SAY(memcmp(&a, &b, sizeof a) == 0);
  memset(&cut, 0x55, sizeof cut);
  size = 4;
  SAY(getpeername(pair.client, (struct sockaddr*)&cut, &size));
  SAY(size);
  SAY(cut.sin_port == a.sin_port);
  SAY(cut.sin_addr.s_addr == 0x55555555);
  SAY(getpeername(pair.client, NULL, &size));
  SAY(getpeername(pair.client, (struct sockaddr*)&cut, NULL));
  close_pair(&pair);
}

/* No room for a name is room enough for its length; of other sockets too. */
static void names_without_room(void) {
  struct pair pair = open_ipv4_pair();
  int others[2];
  need(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, others) == 0, "socketpair");
  const int fds[] = {pair.client, socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), others[0]};
  for (int i = 0; i < 3; ++i) {
    struct sockaddr_in name;
    socklen_t size = 0;
    SAY(getsockname(fds[i], NULL, &size));
    SAY(size);
    size = 0;
    SAY(getpeername(fds[i], NULL, &size));
    SAY(size);
    size = 4;
    SAY(getsockname(fds[i], NULL, &size));
    size = 1;
    SAY(getsockname(fds[i], (struct sockaddr*)&name, &size));
    SAY(size);
    size = (socklen_t)-1;
    SAY(getsockname(fds[i], (struct sockaddr*)&name, &size));
    SAY(getpeername(fds[i], (struct sockaddr*)&name, &size));
    SAY(getsockname(fds[i], (struct sockaddr*)&name, NULL));
  }
  socklen_t size = (socklen_t)-1;
  struct sockaddr_in name;
  const struct sockaddr_storage target = name_of(pair.listener);
  const int waiting = connect_to(&target);
  SAY(accept(pair.listener, (struct sockaddr*)&name, &size));
  SAY(recv(waiting, octets, 1, 0));
  close(waiting), close(fds[1]), close(others[0]), close(others[1]);
  close_pair(&pair);
}

/* accept's own answer about the peer. */
static void accept_tells_who_came(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  const int client = connect_to(&name);
  struct sockaddr_in came, own;
  socklen_t size = sizeof came;
  const int server = accept(listener, (struct sockaddr*)&came, &size);
  SAY(server >= 0);
  SAY(size);
  size = sizeof own;
  SAY(getsockname(client, (struct sockaddr*)&own, &size));
  SAY(memcmp(&came, &own, sizeof own) == 0);
  SAY(fcntl(server, F_GETFD));
  SAY(fcntl(server, F_GETFL) & O_NONBLOCK);
  close(client), close(server), close(listener);
}

static void ioctls(void) {
  struct pair pair = open_ipv4_pair();
  int value = -1;
  SAY(ioctl(pair.client, FIONREAD, &value));
  SAY(value);
  SAY(send(pair.server, "hello", 5, 0));
  SAY(wait_for(pair.client, POLLIN));
  SAY(ioctl(pair.client, FIONREAD, &value));
  SAY(value);
  value = 1;
  SAY(ioctl(pair.server, FIONBIO, &value));
  SAY(fcntl(pair.server, F_GETFL) & O_NONBLOCK);
  SAY(recv(pair.server, octets, 1, 0));
  value = 0;
  SAY(ioctl(pair.server, FIONBIO, &value));
  SAY(fcntl(pair.server, F_GETFL) & O_NONBLOCK);
  SAY(sockatmark(pair.client));
  SAY(isatty(pair.client));
  SAY(lseek(pair.client, 0, SEEK_CUR));
  SAY(pread(pair.client, octets, 1, 0));
  SAY(pwrite(pair.client, octets, 1, 0));
  SAY(ftruncate(pair.client, 0));
  close_pair(&pair);
}

/* Which the compiler does not know, and so does not warn of. */
__attribute__((noipa)) static int parts_of(int count) {
  return count;
}

static void odd_vectors(void) {
  struct pair pair = open_ipv4_pair();
  struct iovec parts[2] = {{octets, 4}, {octets, 4}};
  SAY(send(pair.server, "hello", 5, 0));
  SAY(wait_for(pair.client, POLLIN));
  SAY(readv(pair.client, parts, parts_of(-1)));
  SAY(readv(pair.client, parts, parts_of(100000)));
  SAY(writev(pair.client, parts, parts_of(-1)));
  SAY(writev(pair.client, parts, parts_of(100000)));
  SAY(readv(pair.client, parts, 0));
  SAY(writev(pair.client, parts, 0));
  parts[0].iov_len = SIZE_MAX;
  SAY(writev(pair.client, parts, parts_of(2)));
  SAY(recv(pair.client, octets, 5, MSG_DONTWAIT));
  close_pair(&pair);
}

/* What is free is the program's to use, by dup2 too: nobody else takes it while the program waits,
   or at any time. */
static void numbers_that_were_given_back(void) {
  enum { COUNT = 16 };
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  int given[COUNT], taken = 0;
  char octet = 0;
  for (int i = 0; i < COUNT; ++i) need((given[i] = dup(STDOUT_FILENO)) >= 0, "dup");
  SAY(connect(fd, (const struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  for (int i = 0; i < COUNT; ++i) close(given[i]);
  SAY(wait_for(fd, POLLOUT));
  const int server = accept(listener, NULL, NULL);
  SAY(server == given[0]);
  SAY(send(fd, "x", 1, 0));
  SAY(recv(server, &octet, 1, 0));
  for (int i = 1; i < COUNT; ++i) taken += fcntl(given[i], F_GETFD) != -1;
  SAY(taken);
  close(fd), close(server), close(listener);
}

/* Who comes while the program is slow to accept waits, and is not refused. */
static void more_than_the_backlog(void) {
  enum { COUNT = 12 };
  int connected = 0, ends[2];
  pid_t clients[COUNT];
  struct sockaddr_storage name;
  need(pipe(ends) == 0, "pipe");
  /* Before there are threads, for the sanitizers' sake. */
  for (int i = 0; i < COUNT; ++i) {
    if ((clients[i] = fork()) != 0) continue;
    need(read(ends[0], &name, sizeof name) == sizeof name, "a name");
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    _exit(connect(fd, (const struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  }
  const int listener = listen_on(AF_INET);
  SAY(listen(listener, 2));
  name = name_of(listener);
  for (int i = 0; i < COUNT; ++i) need(write(ends[1], &name, sizeof name) > 0, "write");
  usleep(300000);
  for (int i = 0; i < COUNT; ++i) close(accept(listener, NULL, NULL));
  for (int i = 0; i < COUNT; ++i) {
    int status = -1;
    waitpid(clients[i], &status, 0);
    connected += status == 0;
  }
  SAY(connected);
  close(listener), close(ends[0]), close(ends[1]);
}

/* Each socket takes one number, the lowest that is free, and nothing beside it. */
static void numbers_in_a_row(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  SAY(fd - listener);
  SAY(connect(fd, (const struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  const int server = accept(listener, NULL, NULL);
  SAY(server - fd);
  SAY(send(fd, "x", 1, 0));
  char octet = 0;
  SAY(recv(server, &octet, 1, 0));
  const int next = dup(STDOUT_FILENO);
  SAY(next - server);
  close(next), close(server), close(fd), close(listener);
}

/* The client's number is closed: the server reads the end, and what is opened there is a file. */
static void becomes_a_file(struct pair* pair, int memory) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
  int fd = -1, lower[8];
  for (int i = 0; i < 8 && fd != pair->client; ++i) lower[i] = fd = open(path, O_RDWR | O_CLOEXEC);
  SAY(fd == pair->client);
  SAY(write(fd, "file", 4));
  SAY(lseek(fd, 0, SEEK_END));
  SAY(wait_for(pair->server, POLLIN) & POLLIN);
  SAY(recv(pair->server, octets, sizeof octets, MSG_DONTWAIT));
  for (int i = 0; lower[i] != fd; ++i) close(lower[i]);
  need(ftruncate(memory, 0) == 0, "ftruncate");
  close_pair(pair);
}

/* As libuv does it. */
static void closed_by_number(void) {
  const int memory = memfd_create("surface", MFD_CLOEXEC);
  struct pair pair = open_ipv4_pair();
  SAY(syscall(SYS_close, pair.client));
  SAY(syscall(SYS_close, pair.client));
  SAY(wait_for(pair.server, POLLIN) & POLLIN);
  SAY(recv(pair.server, octets, sizeof octets, MSG_DONTWAIT));
  becomes_a_file(&pair, memory);
  pair = open_ipv4_pair();
  SAY(syscall(SYS_close_range, pair.client, pair.client, 0));
  becomes_a_file(&pair, memory);
  const int fresh = socket(AF_INET, SOCK_STREAM, 0);
  SAY(syscall(SYS_close, fresh));
  SAY(listen(fresh, 5));
  SAY(syscall(SYS_close, -1));
  close(memory);
}

static void duplicated_by_number(void) {
  struct pair pair = open_ipv4_pair();
  const int copy = (int)syscall(SYS_dup, pair.client);
  SAY(copy >= 0);
  SAY(syscall(SYS_close, pair.client));
  SAY(send(copy, "x", 1, 0));
  SAY(recv(pair.server, octets, 1, 0));
  SAY(syscall(SYS_dup3, copy, pair.client, O_CLOEXEC) == pair.client);
  SAY(fcntl(pair.client, F_GETFD));
  SAY(syscall(SYS_dup3, copy, copy, 0));
  SAY(close(copy));
  SAY(send(pair.client, "y", 1, 0));
  SAY(recv(pair.server, octets, 1, 0));
  const int other = open("/dev/null", O_RDWR | O_CLOEXEC);
  SAY(syscall(SYS_dup3, other, pair.client, 0) == pair.client);
  SAY(recv(pair.server, octets, 1, 0));
  SAY(write(pair.client, octets, 5));
  SAY(recv(pair.server, octets, 1, 0));
  close(other);
  close_pair(&pair);
}

/* libc closes by itself what it has opened, whatever that is by then. */
static void closed_by_libc(void) {
  const int memory = memfd_create("surface", MFD_CLOEXEC);
  struct pair pair = open_ipv4_pair();
  FILE* file = fopen("/dev/null", "r+");
  SAY(dup2(pair.client, fileno(file)) == fileno(file));
  close(pair.client);
  pair.client = fileno(file);
  SAY(fclose(file));
  SAY(recv(pair.server, octets, 1, 0));
  becomes_a_file(&pair, memory);
  pair = open_ipv4_pair();
  file = fopen("/dev/null", "r+");
  SAY(dup2(pair.client, fileno(file)) == fileno(file));
  close(pair.client);
  SAY(freopen("/dev/null", "r+", file) == file);
  SAY(recv(pair.server, octets, 1, 0));
  SAY(write(fileno(file), octets, 5));
  fclose(file);
  close(pair.server), close(pair.listener);
  pair = open_ipv4_pair();
  DIR* folder = opendir("/");
  SAY(dup2(pair.client, dirfd(folder)) == dirfd(folder));
  close(pair.client);
  pair.client = dirfd(folder);
  SAY(closedir(folder));
  becomes_a_file(&pair, memory);
  close(memory);
}

/* What the program has not got it cannot close, whatever is there. */
static void closing_all_the_rest(void) {
  struct pair pair = open_ipv4_pair();
  const struct sockaddr_storage name = name_of(pair.listener);
  const int highest = dup(STDOUT_FILENO);
  int closed = 0;
  for (int fd = highest; fd < 20000; ++fd) close(fd); /* what came with exec, too */
  for (int fd = highest; fd < 20000; ++fd) closed += syscall(SYS_close, fd) == 0;
  SAY(closed);
  SAY(close_range((unsigned)highest, ~0u, 0));
  SAY(close_range((unsigned)highest, ~0u, CLOSE_RANGE_CLOEXEC));
  SAY(close_range(7, 6, 0));
  SAY(syscall(SYS_close_range, highest, 1000000, 0));
  closefrom(highest);
  const int client = connect_to(&name);
  const int server = accept(pair.listener, NULL, NULL);
  SAY(server > client);
  SAY(send(client, "x", 1, 0));
  SAY(recv(server, octets, 1, 0));
  SAY(send(pair.client, "y", 1, 0));
  SAY(recv(pair.server, octets, 1, 0));
  /* A child has nothing there that is anybody else's. */
  const pid_t child = fork();
  if (child == 0) {
    close_range(3, ~0u, 0);
    _exit(fcntl(pair.client, F_GETFD) == -1 ? 7 : 8);
  }
  int status = 0;
  SAY(waitpid(child, &status, 0) == child);
  SAY(WEXITSTATUS(status));
  SAY(send(server, "z", 1, 0));
  SAY(recv(client, octets, 1, 0));
  close(client), close(server);
  close_pair(&pair);
}

const struct test_case calls_cases[] = {
    {"a_number_that_is_closed", a_number_that_is_closed},
    {"a_number_that_never_was", a_number_that_never_was},
    {"no_socket", no_socket},
    {"a_fresh_socket", a_fresh_socket},
    {"a_listener", a_listener},
    {"a_port_where_nobody_listens", a_port_where_nobody_listens},
    {"connected_already", connected_already},
    {"connecting_and_asking_again", connecting_and_asking_again},
    {"too_much_or_nothing", too_much_or_nothing},
    {"names", names},
    {"names_without_room", names_without_room},
    {"accept_tells_who_came", accept_tells_who_came},
    {"ioctls", ioctls},
    {"odd_vectors", odd_vectors},
    {"numbers_that_were_given_back", numbers_that_were_given_back},
    {"more_than_the_backlog", more_than_the_backlog},
    {"numbers_in_a_row", numbers_in_a_row},
    {"closed_by_number", closed_by_number},
    {"duplicated_by_number", duplicated_by_number},
    {"closed_by_libc", closed_by_libc},
    {"closing_all_the_rest", closing_all_the_rest},
    {NULL, NULL},
};

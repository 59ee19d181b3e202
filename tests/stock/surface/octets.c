/* Octets by every call and flag: peeking, waiting for all, vectors, messages, files, pipes, stdio.
 */
#define _GNU_SOURCE
#include "surface.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

static char octets[65536];

static void peeking(void) {
  struct pair pair = open_ipv4_pair();
  SAY(recv(pair.client, octets, 1, MSG_PEEK | MSG_DONTWAIT));
  SAY(send(pair.server, "abcdef", 6, 0));
  SAY(recv(pair.client, octets, 6, MSG_PEEK | MSG_WAITALL));
  SAY(memcmp(octets, "abcdef", 6));
  SAY(recv(pair.client, octets, 2, MSG_PEEK));
  SAY(recv(pair.client, octets, 3, 0));
  SAY(memcmp(octets, "abc", 3));
  SAY(recv(pair.client, octets, 100, MSG_PEEK));
  SAY(memcmp(octets, "def", 3));
  SAY(recv(pair.client, octets, 100, 0));
  SAY(recv(pair.client, octets, 100, MSG_DONTWAIT));
  SAY(recv(pair.client, octets, 0, MSG_DONTWAIT));
  SAY(send(pair.client, octets, 0, 0));
  close(pair.server);
  SAY(recv(pair.client, octets, 1, MSG_PEEK));
  close(pair.client), close(pair.listener);
}

static void waiting_for_all(void) {
  struct pair pair = open_ipv4_pair();
  SAY(send_pattern(pair.server, 0, 30000));
  SAY(recv(pair.client, octets, 30000, MSG_WAITALL));
  SAY(send(pair.server, "end", 3, 0));
  close(pair.server);
  SAY(recv(pair.client, octets, 10, MSG_WAITALL));
  SAY(recv(pair.client, octets, 10, MSG_WAITALL));
  close(pair.client), close(pair.listener);
}

/* A peer that does not read yet takes many short messages, as a stream does, and a writer that
   leaves loses none of them. */
static void many_short_messages(void) {
  enum { COUNT = 5000, LENGTH = 16 };
  struct pair pair = open_ipv4_pair();
  SAY(fcntl(pair.client, F_SETFL, O_NONBLOCK));
  int sent = 0;
  for (int i = 0; i < COUNT; ++i) sent += send_pattern(pair.client, i * LENGTH, LENGTH) == LENGTH;
  SAY(sent);
  SAY(poll(&(struct pollfd){pair.client, POLLOUT, 0}, 1, 0));
  close(pair.client);
  SAY(receive_pattern(pair.server, 0, COUNT * LENGTH));
  SAY(recv(pair.server, octets, 1, 0));
  close(pair.server), close(pair.listener);
}

/* What is there when the time is up; preadv2 and pwritev2 have a flag for no time at all. */
static void waiting_no_longer(void) {
  struct pair pair = open_ipv4_pair();
  const struct timeval limit = {0, 200000};
  struct iovec part = {octets, 10};
  SAY(setsockopt(pair.client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
  SAY(recv(pair.client, octets, 10, MSG_PEEK | MSG_WAITALL));
  SAY(preadv2(pair.client, &part, 1, -1, RWF_NOWAIT));
  SAY(send(pair.server, "abc", 3, 0));
  SAY(wait_for(pair.client, POLLIN));
  SAY(recv(pair.client, octets, 10, MSG_PEEK | MSG_WAITALL));
  SAY(recv(pair.client, octets, 10, MSG_WAITALL));
  const struct timeval none = {0, 0};
  SAY(setsockopt(pair.client, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none));
  SAY(preadv2(pair.client, &part, 1, -1, RWF_NOWAIT));
  SAY(pwritev2(pair.server, &part, 1, -1, RWF_NOWAIT));
  SAY(preadv2(pair.client, &part, 1, -1, 0));
  SAY(preadv2(pair.client, &part, 1, 0, RWF_NOWAIT));
  part.iov_len = sizeof octets;
  ssize_t sent = 0;
  for (int i = 0; i < 10000 && sent >= 0; ++i) {
    sent = pwritev2(pair.server, &part, 1, -1, RWF_NOWAIT);
  }
  SAY(sent);
  close_pair(&pair);
}

static void not_waiting(void) {
  struct pair pair = open_ipv4_pair();
  SAY(recv(pair.client, octets, 10, MSG_DONTWAIT));
  SAY(fcntl(pair.client, F_SETFL, O_NONBLOCK));
  SAY(read(pair.client, octets, 10));
  long sent = 0, got = 0;
  ssize_t part = 0;
  /* Octets under way may make room once more behind the first EAGAIN; not for ever. */
  struct pollfd one = {pair.client, POLLOUT, 0};
  int rounds = 0;
  do {
    need(++rounds < 1000, "an end");
    while ((part = send(pair.client, octets, sizeof octets, MSG_NOSIGNAL)) > 0) sent += part;
    need(errno == EAGAIN, "EAGAIN");
  } while (poll(&one, 1, 300) == 1);
  SAY(one.revents);
  SAY(sent > 0);
  fcntl(pair.server, F_SETFL, O_NONBLOCK);
  while (got < sent) {
    part = recv(pair.server, octets, sizeof octets, 0);
    if (part > 0) got += part;
    if (part <= 0 && wait_for(pair.server, POLLIN) == 0) break;
  }
  SAY(got == sent);
  SAY(wait_for(pair.client, POLLOUT));
  SAY(write(pair.client, "x", 1));
  close_pair(&pair);
}

static void vectors(void) {
  struct pair pair = open_ipv4_pair();
  char a[3], b[4], c[8];
  struct iovec out[4] = {{"abc", 3}, {NULL, 0}, {"defg", 4}, {"hi", 2}};
  struct iovec in[3] = {{a, 3}, {b, 4}, {c, 8}};
  SAY(writev(pair.server, out, 4));
  SAY(wait_for(pair.client, POLLIN));
  SAY(readv(pair.client, in, 3));
  SAY(memcmp(a, "abc", 3) == 0 && memcmp(b, "defg", 4) == 0 && memcmp(c, "hi", 2) == 0);
  SAY(pwritev2(pair.server, out, 1, -1, 0));
  SAY(wait_for(pair.client, POLLIN));
  SAY(preadv2(pair.client, in, 1, -1, 0));
  SAY(memcmp(a, "abc", 3));
  close_pair(&pair);
}

static void messages(void) {
  struct pair pair = open_ipv4_pair();
  char a[4], b[60];
  char control[100];
  struct sockaddr_storage from;
  struct iovec out[2] = {{"head", 4}, {"body", 4}};
  struct iovec in[2] = {{a, 4}, {b, sizeof b}};
  struct msghdr sent = {.msg_iov = out, .msg_iovlen = 2};
  struct msghdr got = {.msg_iov = in,
                       .msg_iovlen = 2,
                       .msg_name = &from,
                       .msg_namelen = sizeof from,
                       .msg_control = control,
                       .msg_controllen = sizeof control,
                       .msg_flags = -1};
  SAY(sendmsg(pair.server, &sent, 0));
  SAY(wait_for(pair.client, POLLIN));
  SAY(recvmsg(pair.client, &got, 0));
  SAY(memcmp(a, "head", 4) == 0 && memcmp(b, "body", 4) == 0);
  SAY(got.msg_namelen);
  SAY(got.msg_controllen);
  SAY(got.msg_flags & (MSG_TRUNC | MSG_CTRUNC | MSG_OOB));
  SAY(recvmsg(pair.client, &got, MSG_DONTWAIT));
  SAY(sendmsg(pair.client, NULL, 0));
  SAY(recvmsg(pair.client, NULL, 0));
  char name[10] = "x";
  SAY(sendto(pair.client, "x", 1, MSG_NOSIGNAL, (struct sockaddr*)name, 10));
  socklen_t size = sizeof from;
  SAY(wait_for(pair.server, POLLIN));
  SAY(recvfrom(pair.server, a, 4, 0, (struct sockaddr*)&from, &size));
  SAY(size);
  close_pair(&pair);
}

/* More messages in one call: on a stream, each takes what is there. */
static void many_messages(void) {
  struct pair pair = open_ipv4_pair();
  char in[3][8];
  struct iovec out_parts[3] = {{"aaaaaaaa", 8}, {"bbbbbbbb", 8}, {"cccccccc", 8}};
  struct iovec in_parts[3] = {{in[0], 8}, {in[1], 8}, {in[2], 8}};
  struct mmsghdr sent[3], got[3];
  memset(sent, 0, sizeof sent);
  memset(got, 0, sizeof got);
  for (int i = 0; i < 3; ++i) {
    sent[i].msg_hdr.msg_iov = &out_parts[i];
    got[i].msg_hdr.msg_iov = &in_parts[i];
    sent[i].msg_hdr.msg_iovlen = got[i].msg_hdr.msg_iovlen = 1;
  }
  SAY(sendmmsg(pair.server, sent, 3, 0));
  SAY(sent[0].msg_len + sent[1].msg_len + sent[2].msg_len);
  SAY(recv(pair.client, octets, 24, MSG_PEEK | MSG_WAITALL));
  SAY(recvmmsg(pair.client, got, 3, 0, NULL));
  SAY(got[2].msg_len);
  SAY(memcmp(in, "aaaaaaaabbbbbbbbcccccccc", 24));
  SAY(recvmmsg(pair.client, got, 3, MSG_DONTWAIT, NULL));
  SAY(sendmmsg(pair.server, sent, 2, 0));
  SAY(recv(pair.client, octets, 16, MSG_PEEK | MSG_WAITALL));
  SAY(recvmmsg(pair.client, got, 3, MSG_WAITFORONE, NULL));
  SAY(sendmmsg(pair.server, sent, 1, 0));
  SAY(recv(pair.client, octets, 8, MSG_PEEK | MSG_WAITALL));
  struct timespec soon = {0, 1000000};
  SAY(recvmmsg(pair.client, got, 1, 0, &soon));
  SAY(sendmmsg(pair.server, sent, 0, 0));
  SAY(shutdown(pair.server, SHUT_WR));
  SAY(sendmmsg(pair.server, sent, 3, MSG_NOSIGNAL));
  close_pair(&pair);
}

static int file_of_pattern(long size) {
  const int fd = memfd_create("file", MFD_CLOEXEC);
  for (long i = 0; i < size; i += (long)sizeof octets) {
    for (size_t k = 0; k < sizeof octets; ++k) octets[k] = (char)pattern_at((uint64_t)i + k);
    const long part = size - i < (long)sizeof octets ? size - i : (long)sizeof octets;
    need(write(fd, octets, (size_t)part) == part, "file");
  }
  lseek(fd, 0, SEEK_SET);
  return fd;
}

static void sending_files(void) {
  struct pair pair = open_ipv4_pair();
  const int file = file_of_pattern(50000);
  SAY(sendfile(pair.server, file, NULL, 20000));
  SAY(receive_pattern(pair.client, 0, 20000));
  SAY(lseek(file, 0, SEEK_CUR));
  off_t at = 30000;
  SAY(sendfile(pair.server, file, &at, 100000));
  SAY(at);
  SAY(lseek(file, 0, SEEK_CUR));
  SAY(receive_pattern(pair.client, 30000, 20000));
  SAY(sendfile(pair.server, file, &at, 10));
  SAY(sendfile(pair.server, -1, NULL, 10));
  SAY(send(pair.client, "from", 4, 0));
  SAY(wait_for(pair.server, POLLIN));
  SAY(sendfile(file, pair.server, NULL, 4));
  SAY(recv(pair.server, octets, 10, 0));
  SAY(sendfile(pair.client, pair.server, NULL, 4));
  SAY(shutdown(pair.server, SHUT_WR));
  at = 0;
  signal(SIGPIPE, SIG_IGN);
  SAY(sendfile(pair.server, file, &at, 10));
  SAY(at);
  close(file);
  close_pair(&pair);
}

static void splicing(void) {
  struct pair pair = open_ipv4_pair();
  int ends[2];
  need(pipe(ends) == 0, "pipe");
  SAY(send_pattern(pair.server, 0, 3000));
  SAY(wait_for(pair.client, POLLIN));
  SAY(splice(pair.client, NULL, ends[1], NULL, 1000, 0));
  SAY(splice(pair.client, NULL, ends[1], NULL, 5000, SPLICE_F_MOVE));
  SAY(read(ends[0], octets, 5000));
  SAY((unsigned char)octets[2999] == pattern_at(2999));
  SAY(write(ends[1], "into the stream", 15));
  SAY(splice(ends[0], NULL, pair.client, NULL, 100, SPLICE_F_MORE));
  SAY(recv(pair.server, octets, 15, MSG_WAITALL));
  SAY(memcmp(octets, "into the stream", 15));
  SAY(splice(ends[0], NULL, pair.client, NULL, 100, SPLICE_F_NONBLOCK));
  SAY(fcntl(pair.client, F_SETFL, O_NONBLOCK));
  SAY(splice(pair.client, NULL, ends[1], NULL, 100, 0));
  loff_t at = 0;
  SAY(splice(pair.client, &at, ends[1], NULL, 100, 0));
  SAY(splice(pair.client, NULL, ends[1], &at, 100, 0));
  SAY(splice(ends[0], NULL, pair.client, &at, 100, 0));
  SAY(splice(ends[0], &at, pair.client, NULL, 100, 0));
  SAY(splice(pair.client, NULL, pair.server, NULL, 100, 0));
  SAY(splice(pair.client, NULL, ends[1], NULL, 0, 0));
  SAY(shutdown(pair.server, SHUT_WR));
  SAY(wait_for(pair.client, POLLIN));
  SAY(splice(pair.client, NULL, ends[1], NULL, 100, 0));
  close(ends[0]), close(ends[1]);
  close_pair(&pair);
}

static atomic_int splices; /* some are to come */

/* What a splice waits for is its own business: how many calls of another thread waited. */
static void* reader_that_does_not_wait(void* argument) {
  const int fd = *(int*)argument;
  long waits = 0;
  char octet = 0;
  while (splices) {
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    need(recv(fd, &octet, 1, 0) < 0 || octet == 'z', "recv");
    clock_gettime(CLOCK_MONOTONIC, &after);
    waits += after.tv_sec - before.tv_sec > 1;
  }
  return (void*)waits;
}

static void* reader_of_all(void* argument) {
  static char taken[65536];
  while (recv(*(int*)argument, taken, sizeof taken, 0) > 0) {
  }
  return NULL;
}

static void splicing_beside_a_reader(void) {
  struct pair pair = open_ipv4_pair();
  int ends[2];
  need(pipe2(ends, O_NONBLOCK) == 0, "pipe");
  fcntl(pair.client, F_SETFL, O_NONBLOCK);
  pthread_t reader, taker;
  void* waits = NULL;
  splices = 1;
  need(pthread_create(&reader, NULL, reader_that_does_not_wait, &pair.client) == 0, "thread");
  need(pthread_create(&taker, NULL, reader_of_all, &pair.server) == 0, "thread");
  for (int i = 0; i < 3000; ++i) {
    need(write(ends[1], octets, 1000) == 1000, "write");
    for (long moved = 0; moved < 1000;) {
      const ssize_t part = splice(ends[0], NULL, pair.client, NULL, 1000, 0);
      if (part > 0) moved += part;
    }
  }
  usleep(2500000);
  SAY(send(pair.server, "z", 1, 0));
  splices = 0;
  pthread_join(reader, &waits);
  SAY((long)waits);
  shutdown(pair.client, SHUT_WR);
  pthread_join(taker, NULL);
  close(ends[0]), close(ends[1]);
  close_pair(&pair);
}

/* A pipe that has less room than the stream has octets: none is lost. */
static void splicing_into_a_full_pipe(void) {
  struct pair pair = open_ipv4_pair();
  int ends[2];
  need(pipe2(ends, O_NONBLOCK) == 0, "pipe");
  fcntl(pair.client, F_SETFL, O_NONBLOCK);
  SAY(send_pattern(pair.server, 0, 100000));
  long moved = 0, got = 0;
  while (got < 100000) {
    const ssize_t in = splice(pair.client, NULL, ends[1], NULL, 100000, SPLICE_F_NONBLOCK);
    if (in > 0) moved += in;
    const ssize_t out = read(ends[0], octets, 5000);
    for (ssize_t i = 0; i < out; ++i, ++got) {
      need((unsigned char)octets[i] == pattern_at((uint64_t)got), "the pattern");
    }
    if (in <= 0 && out <= 0 && wait_for(pair.client, POLLIN) == 0) break;
  }
  SAY(moved);
  SAY(got);
  close(ends[0]), close(ends[1]);
  close_pair(&pair);
}

static void stdio_over_a_socket(void) {
  struct pair pair = open_ipv4_pair();
  FILE* out = fdopen(pair.server, "w");
  FILE* in = fdopen(pair.client, "r");
  SAY(out != NULL && in != NULL);
  SAY(fileno(out) == pair.server);
  SAY(fileno(in) == pair.client);
  SAY(fprintf(out, "first line %d\nsecond %s\n", 1, "line"));
  SAY(fflush(out));
  char line[100];
  SAY(fgets(line, sizeof line, in) != NULL);
  SAY(strcmp(line, "first line 1\n"));
  SAY(fgets(line, sizeof line, in) != NULL);
  SAY(strcmp(line, "second line\n"));
  SAY(setvbuf(out, NULL, _IONBF, 0));
  SAY(fputc('x', out));
  SAY(fgetc(in));
  SAY(dprintf(pair.server, "by %s\n", "dprintf"));
  SAY(fgets(line, sizeof line, in) != NULL);
  SAY(strcmp(line, "by dprintf\n"));
  SAY(ftell(out));
  SAY(fseek(out, 0, SEEK_SET));
  SAY(fclose(out));
  SAY(fgetc(in) == EOF);
  SAY(feof(in) != 0);
  SAY(fclose(in));
  SAY(close(pair.client));
  close(pair.listener);
}

/* One FILE for both directions, and two on one socket, as inetd's children and libraries do. */
static void stdio_both_ways(void) {
  struct pair pair = open_ipv4_pair();
  FILE* both = fdopen(pair.client, "r+");
  FILE* out = fdopen(dup(pair.server), "w");
  FILE* in = fdopen(pair.server, "r");
  SAY(setvbuf(both, NULL, _IOLBF, 1024));
  char line[100];
  SAY(fputs("question\n", both));
  SAY(fgets(line, sizeof line, in) != NULL);
  SAY(fputs("answer\n", out));
  SAY(fclose(out));
  SAY(fflush(both));
  SAY(fgets(line, sizeof line, both) != NULL);
  SAY(strcmp(line, "answer\n"));
  SAY(fclose(in));
  SAY(fgetc(both) == EOF);
  SAY(fclose(both));
  SAY(fdopen(pair.client, "r") == NULL);
  SAY(-(long)(fdopen(-1, "r") == NULL));
  close(pair.listener);
}

/* The FILE is made before the socket is connected. */
static void stdio_before_connecting(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  FILE* file = fdopen(fd, "r+");
  SAY(connect(fd, (const struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  const int server = accept(listener, NULL, NULL);
  SAY(fputs("hello\n", file));
  SAY(fflush(file));
  SAY(recv(server, octets, 6, MSG_WAITALL));
  SAY(fclose(file));
  SAY(recv(server, octets, 6, 0));
  close(server), close(listener);
}

static void out_of_band(void) {
  struct pair pair = open_ipv4_pair();
  SAY(recv(pair.client, octets, 1, MSG_OOB));
  SAY(send(pair.server, "!", 1, MSG_OOB));
  close_pair(&pair);
}

/* The error queue is empty, whatever waits to be read. */
static void say_errors(int fd) {
  char control[100];
  struct iovec part = {octets, sizeof octets};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  SAY(recvmsg(fd, &message, MSG_ERRQUEUE));
  SAY(recv(fd, octets, 5, MSG_ERRQUEUE));
}
static void the_error_queue(void) {
  struct pair pair = open_ipv4_pair();
  SAY(send(pair.server, "x", 1, 0));
  SAY(wait_for(pair.client, POLLIN));
  say_errors(pair.client);
  say_errors(pair.listener);
  const pid_t child = fork();
  if (child == 0) {
    close(pair.listener), close(pair.server);
    say_errors(pair.client);
    SAY(recv(pair.client, octets, 5, 0));
    _exit(0);
  }
  close(pair.client);
  need(waitpid(child, NULL, 0) == child, "waitpid");
  close(pair.server), close(pair.listener);
}

/* Octets that the kernel is to send from where they are. Without the option they are copied. */
static void zero_copy(void) {
  struct pair pair = open_ipv4_pair();
  int on = 1;
  socklen_t size = sizeof on;
  SAY(send(pair.client, "12345", 5, MSG_ZEROCOPY));
  SAY(recv(pair.server, octets, 5, MSG_WAITALL));
  SAY(recv(pair.client, octets, 5, MSG_ERRQUEUE));
  SAY(setsockopt(pair.client, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on));
  SAY(getsockopt(pair.client, SOL_SOCKET, SO_ZEROCOPY, &on, &size));
  SAY(on);
  const int fresh = socket(AF_INET, SOCK_STREAM, 0);
  on = 1;
  SAY(setsockopt(fresh, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on));
  SAY(getsockopt(fresh, SOL_SOCKET, SO_ZEROCOPY, &on, &size));
  SAY(on);
  close(fresh);
  close_pair(&pair);
}

static void much_in_both_directions(void) {
  struct pair pair = open_ipv4_pair();
  for (int i = 0; i < 200; ++i) {
    const uint64_t at = (uint64_t)i * 20000;
    if (send_pattern(pair.client, at, 20000) != 20000) break;
    if (send_pattern(pair.server, at, 15000) != 15000) break;
    if (receive_pattern(pair.server, at, 20000) != 20000) break;
    if (receive_pattern(pair.client, at, 15000) != 15000) break;
    if (i == 199) SAY(i);
  }
  close_pair(&pair);
}

/* MSG_TRUNC: they are taken and go nowhere, at once a part of them or all that were asked for. */
static void discarding(void) {
  enum { MUCH = 3000000 };
  struct pair pair = open_ipv4_pair();
  char held[8] = "unread";
  SAY(send(pair.server, "abcdefghijkl", 12, 0));
  SAY(wait_for(pair.client, POLLIN));
  SAY(recv(pair.client, held, 4, MSG_TRUNC));
  tell("the buffer", held);
  SAY(recv(pair.client, held, 2, MSG_TRUNC | MSG_PEEK));
  SAY(recv(pair.client, NULL, 2, MSG_TRUNC));
  SAY(recvfrom(pair.client, NULL, 1, MSG_TRUNC, NULL, NULL));
  struct iovec part = {NULL, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  SAY(recvmsg(pair.client, &message, MSG_TRUNC));
  SAY(recv(pair.client, NULL, 100, MSG_TRUNC));
  tell("the buffer", held);
  SAY(recv(pair.client, NULL, 1, MSG_TRUNC | MSG_DONTWAIT));
  const pid_t child = fork();
  if (child == 0) {
    send_pattern(pair.server, 0, MUCH);
    _exit(0);
  }
  SAY(recv(pair.client, NULL, MUCH - 5, MSG_TRUNC | MSG_WAITALL));
  SAY(receive_pattern(pair.client, MUCH - 5, 5));
  waitpid(child, NULL, 0);
  close_pair(&pair);
}

const struct test_case octets_cases[] = {
    {"peeking", peeking},
    {"waiting_for_all", waiting_for_all},
    {"many_short_messages", many_short_messages},
    {"discarding", discarding},
    {"waiting_no_longer", waiting_no_longer},
    {"not_waiting", not_waiting},
    {"vectors", vectors},
    {"messages", messages},
    {"many_messages", many_messages},
    {"sending_files", sending_files},
    {"splicing", splicing},
    {"splicing_beside_a_reader", splicing_beside_a_reader},
    {"splicing_into_a_full_pipe", splicing_into_a_full_pipe},
    {"stdio_over_a_socket", stdio_over_a_socket},
    {"stdio_both_ways", stdio_both_ways},
    {"stdio_before_connecting", stdio_before_connecting},
    {"out_of_band", out_of_band},
    {"the_error_queue", the_error_queue},
    {"zero_copy", zero_copy},
    {"much_in_both_directions", much_in_both_directions},
    {NULL, NULL},
};

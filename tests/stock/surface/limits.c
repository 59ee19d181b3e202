/* Exhaustion: of descriptors, of memory, of registrations. The errno of a sockets programmer, and
   afterwards all is as before. */
#define _GNU_SOURCE
#include "surface.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <sys/resource.h>

static char octets[4096];

/* The verbs, which fail when told to: in IWARP_MODE a device has no more of something. */
static atomic_int fails_at;

/* `real` is libibverbs' own function of this name. */
#define BEHIND(real, name)                 \
  do {                                     \
    void* found = dlsym(RTLD_NEXT, name);  \
    memcpy(&(real), &found, sizeof found); \
  } while (0)

static int fails(int which) {
  if (fails_at != which) return 0;
  errno = ENOMEM;
  return 1;
}

#pragma GCC visibility push(default)
#undef ibv_reg_mr
struct ibv_mr* ibv_reg_mr(struct ibv_pd* pd, void* memory, size_t size, int access) {
  struct ibv_mr* (*real)(struct ibv_pd*, void*, size_t, int);
  BEHIND(real, "ibv_reg_mr");
  return fails(1) ? NULL : real(pd, memory, size, access);
}
struct ibv_mr* ibv_reg_mr_iova2(struct ibv_pd* pd, void* memory, size_t size, uint64_t iova,
                                unsigned access) {
  struct ibv_mr* (*real)(struct ibv_pd*, void*, size_t, uint64_t, unsigned);
  BEHIND(real, "ibv_reg_mr_iova2");
  return fails(1) ? NULL : real(pd, memory, size, iova, access);
}
struct ibv_cq* ibv_create_cq(struct ibv_context* context, int entries, void* own,
                             struct ibv_comp_channel* channel, int vector) {
  struct ibv_cq* (*real)(struct ibv_context*, int, void*, struct ibv_comp_channel*, int);
  BEHIND(real, "ibv_create_cq");
  return fails(2) ? NULL : real(context, entries, own, channel, vector);
}
struct ibv_pd* ibv_alloc_pd(struct ibv_context* context) {
  struct ibv_pd* (*real)(struct ibv_context*);
  BEHIND(real, "ibv_alloc_pd");
  return fails(3) ? NULL : real(context);
}
#pragma GCC visibility pop

/* A connection works, before and after. */
static void works(const struct sockaddr_storage* name, int listener) {
  const int client = connect_to(name);
  const int server = accept(listener, NULL, NULL);
  need(server >= 0, "accept");
  say("works", send_pattern(client, 0, 20000) + receive_pattern(server, 0, 20000));
  close(client), close(server);
}

static void descriptors(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  works(&name, listener);
  int held[4096], count = 0;
  const struct rlimit low = {60, 60 + 1000};
  struct rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  const struct rlimit limit = {low.rlim_cur, before.rlim_max};
  need(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
  const int late = socket(AF_INET, SOCK_STREAM, 0);
  const int waiting = connect_to(&name);
  SAY(wait_for(listener, POLLIN));
  while ((held[count] = dup(0)) >= 0) ++count;
  SAY(count > 0);
  SAY(socket(AF_INET, SOCK_STREAM, 0));
  SAY(dup(listener));
  SAY(accept(listener, NULL, NULL));
  SAY(accept(listener, NULL, NULL));
  for (int i = 0; i < count; ++i) close(held[i]);
  /* What could not be accepted waits on. */
  const int server = accept(listener, NULL, NULL);
  SAY(server >= 0);
  SAY(send_pattern(waiting, 0, 20000) + receive_pattern(server, 0, 20000));
  close(waiting), close(server);
  need(setrlimit(RLIMIT_NOFILE, &before) == 0, "setrlimit");
  SAY(connect(late, (const struct sockaddr*)&name, sizeof(struct sockaddr_in)));
  close(accept(listener, NULL, NULL));
  close(late);
  works(&name, listener);
  close(listener);
}

/* The table gets full at every possible point of connecting and accepting: an error, or it works;
   nothing is lost and nothing hangs. */
static void descriptors_run_out_anywhere(void) {
  const int listener = listen_on(AF_INET);
  fcntl(listener, F_SETFL, O_NONBLOCK);
  const struct sockaddr_storage name = name_of(listener);
  struct rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  long odd = 0;
  for (int room = 0; room < 16; ++room) {
    int held[256], count = 0;
    const struct rlimit limit = {100, before.rlim_max};
    need(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    while (count < 256 && (held[count] = dup(0)) >= 0) ++count;
    for (int i = 0; i < room && count > 0; ++i) close(held[--count]);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    int connected = -1;
    if (fd < 0) {
      if (errno != EMFILE) ++odd;
    } else {
      const struct timeval limit_of_time = {PATIENCE_S, 0};
      setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit_of_time, sizeof limit_of_time);
      connected = connect(fd, (const struct sockaddr*)&name, sizeof(struct sockaddr_in));
      const int code = errno;
      if (connected < 0 && code != EMFILE && code != ENOMEM && code != ENOBUFS &&
          code != ECONNREFUSED && code != ECONNRESET && code != EADDRNOTAVAIL && code != ENFILE) {
        fprintf(stderr, "room %d: %s\n", room, strerrorname_np(code));
        ++odd;
      }
    }
    const int server = accept(listener, NULL, NULL);
    if (server < 0 && errno != EMFILE && errno != EAGAIN && errno != ENOMEM) ++odd;
    if (server >= 0) close(server);
    if (fd >= 0) close(fd);
    for (int i = 0; i < count; ++i) close(held[i]);
    need(setrlimit(RLIMIT_NOFILE, &before) == 0, "setrlimit");
    /* What came after the room was gone. */
    for (int again = 0; again < 20; ++again) {
      const int left = accept(listener, NULL, NULL);
      if (left >= 0) close(left);
      usleep(5000);
    }
  }
  SAY(odd);
  fcntl(listener, F_SETFL, 0);
  works(&name, listener);
  close(listener);
}

/* What an exhausted device answers when connecting. TCP has no such device and connects. */
static void try_connecting(const struct sockaddr_storage* name, const char* what) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const int result = connect(fd, (const struct sockaddr*)name, sizeof(struct sockaddr_in));
  say(what, result);
  close(fd);
}

static void registrations(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  works(&name, listener);
  const char* const kinds[] = {"regions", "completion queues", "protection domains"};
  for (int kind = 1; kind <= 3; ++kind) {
    fails_at = kind;
    try_connecting(&name, kinds[kind - 1]);
    fails_at = 0;
    fcntl(listener, F_SETFL, O_NONBLOCK);
    usleep(50000);
    const int came = accept(listener, NULL, NULL);
    if (came >= 0) close(came);
    fcntl(listener, F_SETFL, 0);
    works(&name, listener);
  }
  close(listener);
}

/* No address space for the rings. */
static void memory(void) {
  const int listener = listen_on(AF_INET);
  const struct sockaddr_storage name = name_of(listener);
  works(&name, listener);
  struct rlimit before;
  getrlimit(RLIMIT_AS, &before);
  long odd = 0;
  for (long room = 0; room < 40; ++room) {
    long pages = 0;
    FILE* const status = fopen("/proc/self/statm", "r");
    need(fscanf(status, "%ld", &pages) == 1, "statm");
    fclose(status);
    const struct rlimit limit = {(rlim_t)(pages * 4096 + room * 32768), before.rlim_max};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    need(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
    const int connected = connect(fd, (const struct sockaddr*)&name, sizeof(struct sockaddr_in));
    const int code = errno;
    need(setrlimit(RLIMIT_AS, &before) == 0, "setrlimit");
    if (connected < 0 && code != ENOMEM && code != ENOBUFS && code != ECONNREFUSED &&
        code != ECONNRESET) {
      fprintf(stderr, "room %ld: %s\n", room, strerrorname_np(code));
      ++odd;
    }
    close(fd);
    fcntl(listener, F_SETFL, O_NONBLOCK);
    usleep(10000);
    int came;
    while ((came = accept(listener, NULL, NULL)) >= 0) close(came);
    fcntl(listener, F_SETFL, 0);
  }
  SAY(odd);
  works(&name, listener);
  SAY(recv(listener, octets, 1, 0));
  close(listener);
}

const struct test_case limits_cases[] = {
    {"descriptors", descriptors},
    {"descriptors_run_out_anywhere", descriptors_run_out_anywhere},
    {"registrations", registrations},
    {"memory", memory},
    {NULL, NULL},
};

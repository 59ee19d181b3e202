/* Errors that a sanitizer has to see in weft's libraries, made by misusing them; for planted.py.

   usage: stock_planted short|unaligned|leak|race|fault
   A child makes the error and the parent does not look at what became of it: exit status 0. */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 20000, LEAKS = 10 };

static void need(int holds, const char* what) {
  if (holds) return;
  perror(what);
  exit(1);
}

static struct ibv_context* device(void) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  need(list != NULL && list[0] != NULL, "ibv_get_device_list");
  struct ibv_context* context = ibv_open_device(list[0]);
  need(context != NULL, "ibv_open_device");
  return context;
}

/* Memory that is too short for what is asked for. */
static void write_behind_memory(void) {
  struct ibv_device_attr* attr = malloc(sizeof attr->fw_ver);
  ibv_query_device(device(), attr);
}

static void write_unaligned(void) {
  char* memory = malloc(sizeof(struct ibv_device_attr) + 1);
  ibv_query_device(device(), (struct ibv_device_attr*)(memory + 1));
}

/* More than one, since the last may still lie in a register. */
static void leak(void) {
  for (int i = 0; i < LEAKS; ++i) {
    struct rdma_addrinfo* found;
    need(rdma_getaddrinfo("127.0.0.1", "7174", NULL, &found) == 0, "rdma_getaddrinfo");
  }
}

struct shared {
  struct ibv_context* context;
  pthread_barrier_t start;
  struct ibv_device_attr attr;
};

static void* write_to_shared(void* argument) {
  struct shared* shared = argument;
  pthread_barrier_wait(&shared->start);
  for (int i = 0; i < ROUNDS; ++i) ibv_query_device(shared->context, &shared->attr);
  return NULL;
}

static void race(void) {
  static struct shared shared;
  shared.context = device();
  pthread_barrier_init(&shared.start, NULL, 2);
  pthread_t other;
  need(pthread_create(&other, NULL, write_to_shared, &shared) == 0, "pthread_create");
  write_to_shared(&shared);
  pthread_join(other, NULL);
}

/* Not on registered memory: the libraries' handler has to hand it on to the sanitizer's. */
static void fault(void) {
  device();
  char* page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  need(page != MAP_FAILED, "mmap");
  *page = 1;
}

static const struct {
  const char* name;
  void (*make)(void);
} kErrors[] = {
    {"short", write_behind_memory},
    {"unaligned", write_unaligned},
    {"leak", leak},
    {"race", race},
    {"fault", fault},
};

int main(int argc, char** argv) {
  for (size_t i = 0; argc == 2 && i < sizeof kErrors / sizeof *kErrors; ++i) {
    if (strcmp(argv[1], kErrors[i].name) != 0) continue;
    const pid_t child = fork();
    need(child >= 0, "fork");
    if (child == 0) {
      kErrors[i].make();
      return 0;
    }
    waitpid(child, NULL, 0);
    return 0;
  }
  fprintf(stderr, "usage: stock_planted short|unaligned|leak|race|fault\n");
  return 2;
}

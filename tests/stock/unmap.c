/* A program that unmaps a registered buffer and then uses it; for bad_input.py.

   usage: stock_unmap serve|connect PORT WHAT
   WHAT is the buffer that its owner unmaps: write-source, write-target, read-source (the server's),
   read-target, send-source, receive (the server's). Exit status 0 if the connection ended in an
   error, as it should; 1 if the work succeeded, or if nothing is heard of it for ten seconds. */
#define _GNU_SOURCE
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { OCTETS = 256 * 1024, PATIENCE_S = 10 };

struct target {
  uint64_t address;
  uint32_t rkey;
} __attribute__((packed));

static void need(int holds, const char* what) {
  if (holds) return;
  perror(what);
  exit(1);
}

/* Far from where the kernel places mappings by itself: nothing else of this process may come to lie
   at the address after munmap, since then there would be memory again and no error to see. And it
   is where ThreadSanitizer, which divides the address space, has the memory of programs. */
static char* buffer(void) {
  static char* const places = (char*)0x7e9000000000;
  static size_t taken;
  char* memory = mmap(places + taken++ * 2 * OCTETS, OCTETS, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  need(memory != MAP_FAILED, "mmap");
  memset(memory, 7, OCTETS);
  return memory;
}

static struct ibv_mr* registered(struct rdma_cm_id* id, char* memory) {
  const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  struct ibv_mr* region = ibv_reg_mr(id->pd, memory, OCTETS, rights);
  need(region != NULL, "ibv_reg_mr");
  return region;
}

/* Polls until one of the two CQs has a completion in error. */
static int error_comes(struct rdma_cm_id* id, const char* who) {
  const time_t last = time(NULL) + PATIENCE_S;
  while (time(NULL) <= last) {
    struct ibv_cq* queues[] = {id->send_cq, id->recv_cq};
    for (int i = 0; i < 2; ++i) {
      struct ibv_wc done;
      if (ibv_poll_cq(queues[i], 1, &done) != 1) continue;
      printf("%s: work request %d: %s\n", who, (int)done.wr_id, ibv_wc_status_str(done.status));
      if (done.status != IBV_WC_SUCCESS) return 1;
    }
  }
  printf("%s: no error within %d s\n", who, PATIENCE_S);
  return 0;
}

static struct rdma_cm_id* endpoint(const char* port, int passive) {
  struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP,
                                .ai_flags = passive ? RAI_PASSIVE : 0};
  struct ibv_qp_init_attr attr = {.cap = {8, 8, 1, 1, 0}, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
  struct rdma_addrinfo* resolved;
  struct rdma_cm_id* id;
  need(rdma_getaddrinfo("127.0.0.1", port, &hints, &resolved) == 0, "rdma_getaddrinfo");
  need(rdma_create_ep(&id, resolved, NULL, &attr) == 0, "rdma_create_ep");
  rdma_freeaddrinfo(resolved);
  return id;
}

static int serve(const char* port, const char* what) {
  struct rdma_cm_id *listening = endpoint(port, 1), *id;
  need(rdma_listen(listening, 1) == 0, "rdma_listen");
  need(rdma_get_request(listening, &id) == 0, "rdma_get_request");

  char *exposed = buffer(), *incoming = buffer();
  struct ibv_mr* exposed_region = registered(id, exposed);
  struct ibv_mr* incoming_region = registered(id, incoming);
  need(rdma_post_recv(id, (void*)1, incoming, OCTETS, incoming_region) == 0, "rdma_post_recv");
  if (!strcmp(what, "write-target") || !strcmp(what, "read-source")) munmap(exposed, OCTETS);
  if (!strcmp(what, "receive")) munmap(incoming, OCTETS);

  const struct target offer = {(uintptr_t)exposed, exposed_region->rkey};
  struct rdma_conn_param param = {.private_data = &offer, .private_data_len = sizeof offer,
                                  .responder_resources = 4, .initiator_depth = 4};
  need(rdma_accept(id, &param) == 0, "rdma_accept");
  const int failed = error_comes(id, "server");
  rdma_disconnect(id);
  ibv_dereg_mr(exposed_region);
  ibv_dereg_mr(incoming_region);
  rdma_destroy_ep(id);
  rdma_destroy_ep(listening);
  return failed ? 0 : 1;
}

static int connect_and_use(const char* port, const char* what) {
  struct rdma_cm_id* id = endpoint(port, 0);
  char *memory = buffer(), *incoming = buffer();
  struct ibv_mr* region = registered(id, memory);
  struct ibv_mr* incoming_region = registered(id, incoming);
  need(rdma_post_recv(id, (void*)1, incoming, OCTETS, incoming_region) == 0, "rdma_post_recv");
  struct rdma_conn_param param = {.responder_resources = 4, .initiator_depth = 4};
  need(rdma_connect(id, &param) == 0, "rdma_connect");
  struct target target;
  memcpy(&target, id->event->param.conn.private_data, sizeof target);

  if (!strcmp(what, "write-source") || !strcmp(what, "read-target") ||
      !strcmp(what, "send-source")) {
    munmap(memory, OCTETS);
  }
  int posted;
  if (!strncmp(what, "write", 5)) {
    posted = rdma_post_write(id, (void*)2, memory, OCTETS, region, 0, target.address, target.rkey);
  } else if (!strncmp(what, "read", 4)) {
    posted = rdma_post_read(id, (void*)2, memory, OCTETS, region, 0, target.address, target.rkey);
  } else {
    posted = rdma_post_send(id, (void*)2, memory, OCTETS, region, 0);
  }
  if (posted != 0) perror("client: the post was refused");
  /* A Write or Send completes when the octets have left: the posted receive shows the end. */
  const int failed = posted != 0 || error_comes(id, "client");
  rdma_disconnect(id);
  ibv_dereg_mr(region);
  ibv_dereg_mr(incoming_region);
  rdma_destroy_ep(id);
  return failed ? 0 : 1;
}

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: stock_unmap serve|connect PORT WHAT\n");
    return 2;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  return strcmp(argv[1], "serve") ? connect_and_use(argv[2], argv[3]) : serve(argv[2], argv[3]);
}

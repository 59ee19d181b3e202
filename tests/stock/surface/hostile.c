/* A peer that speaks iWARP and breaks the rsockets protocol; for surface.py.

   usage: stock_hostile connect|serve PORT WHAT
   connect: to a listener in IWARP_MODE. serve: one such client, after saying "ready".
   It makes the connection as an rsocket does, except for what WHAT says of its connection data,
   does what WHAT says, and waits for the end of the connection. It prints "refused" if the other
   side does not let it in, "ended" if the connection ended; exit status 0 for both, 1 for neither.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RING = 128 * 1024, RECEIVES = 384, SENDS = 1000, PATIENCE_MS = 30000 };

/* The messages of the protocol. */
enum { DATA = 0, SGL = 4, IOMAP = 6, CTRL = 7 };
enum { DISCONNECT = 0, KEEPALIVE = 1, SHUTDOWN = 2 };
static uint32_t message(uint32_t op, uint32_t data) {
  return op << 29 | data;
}

struct sge {
  uint64_t address;
  uint32_t key, length;
};

struct connect_data {
  uint8_t version, flags;
  uint16_t credits;
  uint8_t reserved[3], iomap;
  struct sge target_sgl, buffer;
} __attribute__((packed));

static const char* what;
static struct rdma_event_channel* channel;
static struct rdma_cm_id* id;
static struct ibv_mr* region;
static struct {
  char ring[RING];
  struct sge targets[2];
  uint32_t messages[RECEIVES];
  char source[RING];
} memory;
static struct connect_data theirs; /* in host order, once connected */

static int is(const char* name) {
  return strcmp(what, name) == 0;
}

static void need(int holds, const char* where) {
  if (holds) return;
  perror(where);
  exit(1);
}

static struct sge swapped(struct sge sge) {
  return (struct sge){htobe64(sge.address), htobe32(sge.key), htobe32(sge.length)};
}

static struct connect_data offer(void) {
  struct connect_data data = {.version = 1, .flags = 2, .credits = htobe16(RECEIVES)};
  data.target_sgl = swapped((struct sge){(uintptr_t)memory.targets, region->rkey, 2});
  data.buffer = swapped((struct sge){(uintptr_t)memory.ring, region->rkey, RING / 2});
  if (is("another-version")) data.version = 2;
  if (is("no-credits")) data.credits = 0;
  if (is("no-target-list")) data.target_sgl.length = 0;
  if (is("huge-target-list")) data.target_sgl.length = 0xffffffff;
  if (is("buffer-of-another")) data.buffer.key ^= 0xffffff00;
  if (is("buffer-too-long")) data.buffer.length = htobe32(0x7fffffff);
  if (is("another-byte-order")) data.flags |= 1;
  return data;
}

static struct rdma_conn_param parameters(const struct connect_data* data) {
  struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
  param.private_data = data;
  param.private_data_len = is("short-data") ? 8 : is("no-data") ? 0 : sizeof *data;
  return param;
}

static enum rdma_cm_event_type next_event(struct rdma_cm_event** event) {
  struct pollfd one = {channel->fd, POLLIN, 0};
  if (poll(&one, 1, PATIENCE_MS) != 1) {
    puts("nothing happened");
    exit(1);
  }
  need(rdma_get_cm_event(channel, event) == 0, "rdma_get_cm_event");
  return (*event)->event;
}

static void pass(enum rdma_cm_event_type wanted) {
  struct rdma_cm_event* event;
  const enum rdma_cm_event_type got = next_event(&event);
  need(got == wanted, rdma_event_str(got));
  rdma_ack_cm_event(event);
}

static void post_receive(int slot) {
  struct ibv_sge part = {(uintptr_t)&memory.messages[slot], 4, region->lkey};
  struct ibv_recv_wr request = {.wr_id = (uint64_t)slot, .sg_list = &part, .num_sge = 1}, *bad;
  need(ibv_post_recv(id->qp, &request, &bad) == 0, "ibv_post_recv");
}

static void make_queues(void) {
  struct ibv_pd* pd = ibv_alloc_pd(id->verbs);
  need(pd != NULL, "ibv_alloc_pd");
  struct ibv_cq* cq = ibv_create_cq(id->verbs, SENDS + RECEIVES, NULL, NULL, 0);
  need(cq != NULL, "ibv_create_cq");
  struct ibv_qp_init_attr attributes = {.send_cq = cq,
                                        .recv_cq = cq,
                                        .qp_type = IBV_QPT_RC,
                                        .cap = {SENDS, RECEIVES, 1, 1, 64},
                                        .sq_sig_all = 1};
  need(rdma_create_qp(id, pd, &attributes) == 0, "rdma_create_qp");
  region = ibv_reg_mr(pd, &memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  need(region != NULL, "ibv_reg_mr");
  for (int i = 0; i < RECEIVES; ++i) post_receive(i);
}

static void post(struct ibv_send_wr* request) {
  struct ibv_send_wr* bad;
  /* Refused only when the other side has ended the connection already. */
  (void)ibv_post_send(id->qp, request, &bad);
}
static void tell(const void* octets, uint32_t size) {
  struct ibv_sge part = {(uintptr_t)octets, size, 0};
  struct ibv_send_wr request = {
      .sg_list = &part, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE};
  post(&request);
}
static void tell_word(uint32_t word) {
  tell(&word, sizeof word);
}
/* Each from octets of its own: those of the one before may not have left yet. */
static void write_to(uint64_t address, uint32_t key, const void* octets, uint32_t size) {
  static uint32_t used;
  if (used + size > sizeof memory.source) used = 0;
  char* const from = memory.source + used;
  used += size;
  memcpy(from, octets, size);
  struct ibv_sge part = {(uintptr_t)from, size, region->lkey};
  struct ibv_send_wr request = {
      .sg_list = &part, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {address, key}};
  post(&request);
}
static void send_octets(uint32_t count) {
  static char octets[RING];
  write_to(theirs.buffer.address, theirs.buffer.key, octets, count);
  tell_word(message(DATA, count));
}

/* Something came, so the victim has its connection; before, it might never learn of it. It speaks
   when it was spoken to. */
static void wait_for_the_victim(void) {
  struct ibv_wc completion;
  tell_word(message(CTRL, KEEPALIVE));
  while (ibv_poll_cq(id->qp->recv_cq, 1, &completion) == 0) usleep(1000);
}

static void misbehave(void) {
  const struct sge buffer = theirs.buffer;
  if (is("reserved-op-1")) tell_word(message(1, 5));
  if (is("reserved-op-2")) tell_word(message(2, 5));
  if (is("reserved-op-3")) tell_word(message(3, 5));
  if (is("reserved-op-5")) tell_word(message(5, 5));
  if (is("unknown-control")) tell_word(message(CTRL, 99));
  if (is("unasked-iomap")) tell_word(message(IOMAP, 0));
  if (is("far-iomap")) tell_word(message(IOMAP, 0x1fffffff));
  if (is("data-of-nothing")) tell_word(message(DATA, 0));
  /* It may have granted the other half of its ring as well. */
  if (is("data-beyond-the-grant")) tell_word(message(DATA, 2 * buffer.length + 1));
  if (is("huge-data")) tell_word(message(DATA, 0x1fffffff));
  if (is("short-message")) tell("xyz", 3);
  if (is("empty-message")) tell("", 0);
  if (is("long-message")) tell("12345678", 8);
  if (is("data-after-shutdown")) {
    tell_word(message(CTRL, SHUTDOWN));
    send_octets(5);
  }
  if (is("more-than-its-credits")) {
    for (uint32_t i = 0; i < theirs.credits + 10u; ++i) tell_word(message(DATA, 1));
  }
  if (is("write-beyond-the-ring"))
    write_to(buffer.address + 2ull * buffer.length, buffer.key, "x", 1);
  if (is("write-with-another-key")) write_to(buffer.address, buffer.key ^ 0xffff00, "x", 1);
  if (is("write-below-the-list")) {
    write_to(theirs.target_sgl.address - 4096, theirs.target_sgl.key, "x", 1);
  }
  if (is("writes-beside-the-protocol")) write_to(buffer.address, buffer.key, "xxxx", 4);
  /* What it grants lies nowhere: the other side writes there, and is refused. */
  if (is("grants-what-it-has-not")) {
    const struct sge nowhere = {0x1000, 0x12345678, 0x7fffffff};
    for (int i = 0; i < 2; ++i) {
      write_to(theirs.target_sgl.address + (uint64_t)i * sizeof nowhere, theirs.target_sgl.key,
               &nowhere, sizeof nowhere);
    }
    tell_word(message(SGL, 60000));
  }
  if (is("limit-goes-back")) tell_word(message(SGL, 0));
  if (is("hangs-up-and-goes-on")) {
    tell_word(message(CTRL, DISCONNECT));
    send_octets(5);
    tell_word(message(SGL, 5));
    tell_word(message(CTRL, SHUTDOWN));
    tell_word(message(1, 1));
  }
  if (is("flood-of-limits")) {
    for (int i = 0; i < 900; ++i) tell_word(message(SGL, RECEIVES));
  }
  if (is("dies")) {
    wait_for_the_victim();
    kill(getpid(), SIGKILL);
  }
}

/* What is odd, but no violation: the other side goes on, so the end has to come from here. */
static int harmless(void) {
  return is("huge-target-list") || is("another-byte-order") || is("writes-beside-the-protocol") ||
         is("limit-goes-back") || is("flood-of-limits") || is("goes-without-a-word");
}

static void take_offer(const struct rdma_cm_event* event) {
  need(event->param.conn.private_data_len >= sizeof theirs, "their connection data");
  memcpy(&theirs, event->param.conn.private_data, sizeof theirs);
  theirs.credits = be16toh(theirs.credits);
  theirs.target_sgl = swapped(theirs.target_sgl);
  theirs.buffer = swapped(theirs.buffer);
}

/* Some of the victim's words may come first: it owes us its second half at once. */
static void live(void) {
  struct rdma_cm_event* event;
  misbehave();
  if (harmless()) {
    usleep(100000);
    rdma_disconnect(id);
  }
  while (next_event(&event) != RDMA_CM_EVENT_DISCONNECTED) rdma_ack_cm_event(event);
  rdma_ack_cm_event(event);
  puts("ended");
}

static void connect_to(const struct sockaddr_in* address) {
  struct rdma_cm_event* event;
  need(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
  need(rdma_resolve_addr(id, NULL, (struct sockaddr*)address, 5000) == 0, "rdma_resolve_addr");
  pass(RDMA_CM_EVENT_ADDR_RESOLVED);
  need(rdma_resolve_route(id, 5000) == 0, "rdma_resolve_route");
  pass(RDMA_CM_EVENT_ROUTE_RESOLVED);
  make_queues();
  const struct connect_data data = offer();
  struct rdma_conn_param param = parameters(&data);
  need(rdma_connect(id, &param) == 0, "rdma_connect");
  if (next_event(&event) != RDMA_CM_EVENT_ESTABLISHED) {
    puts("refused");
    return;
  }
  take_offer(event);
  rdma_ack_cm_event(event);
  live();
}

static void serve(const struct sockaddr_in* address) {
  struct rdma_cm_id* listener;
  struct rdma_cm_event* event;
  need(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
  need(rdma_bind_addr(listener, (struct sockaddr*)address) == 0, "rdma_bind_addr");
  need(rdma_listen(listener, 5) == 0, "rdma_listen");
  puts("ready");
  fflush(stdout);
  need(next_event(&event) == RDMA_CM_EVENT_CONNECT_REQUEST, "a request");
  id = event->id;
  take_offer(event);
  rdma_ack_cm_event(event);
  make_queues();
  const struct connect_data data = offer();
  struct rdma_conn_param param = parameters(&data);
  need(rdma_accept(id, &param) == 0, "rdma_accept");
  if (next_event(&event) != RDMA_CM_EVENT_ESTABLISHED) {
    puts("refused");
    return;
  }
  rdma_ack_cm_event(event);
  live();
}

int main(int count, char** words) {
  need(count == 4, "usage: stock_hostile connect|serve PORT WHAT");
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htobe32(INADDR_LOOPBACK)};
  address.sin_port = htobe16((uint16_t)strtol(words[2], NULL, 10));
  what = words[3];
  alarm(100);
  channel = rdma_create_event_channel();
  need(channel != NULL, "rdma_create_event_channel");
  if (strcmp(words[1], "serve") == 0) {
    serve(&address);
  } else {
    connect_to(&address);
  }
  fflush(stdout);
  _exit(0); /* what the connection left, the process takes along */
}

// One connection by the public API, of which each end says what it saw: what no stock program
// shows.
//
// usage: talk server|client ADDRESS PORT [NAME=NUMBER]...
//   private=0      octets of private data in the Request; of a server in the Reply or the rejection
//   ird=1 ord=1    what rdma_connect and rdma_accept are given
//   size=4096      octets of each RDMA Write, and of each Read
//   reads=1        RDMA Reads, all outstanding at once as far as ORD lets them; 0: none
//   rounds=3       each round: the client writes, reads and sends, then the server does
//   reject=1       server: reject the connection; client: be rejected, or fail
//   leave=1        disconnect first; otherwise wait for the other end to
//   flood=1        after the rounds, write without a pause until the connection ends
//   patience=100   seconds after which it gives up (exit status 142)
//
// Each line of output is an event: request, established, rejected, "ready" after the rounds, and
// "over" when the end has been told and the last posted receive has been flushed.
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kSizeMax = 1 << 20, kPrivateMax = 255, kFloodDepth = 8, kReadsMax = 256, kReceives = 4 };

static struct {
  const char* name;
  long value;
} options[] = {{"private", 0}, {"ird", 1},    {"ord", 1},   {"size", 4096}, {"reads", 1},
               {"rounds", 3},  {"reject", 0}, {"leave", 0}, {"flood", 0},   {"patience", 100}};

// What an end tells the other with its Sends: where its memory is.
struct Hello {
  uint64_t address;
  uint32_t key, round;
};

// The memory of an end: what the peer writes, what the peer reads, and where own Reads go.
static uint8_t* memory;
static uint8_t *written, *source, *sink;
static struct Hello hellos[1 + kReceives];  // the first to send, the others to receive
static struct rdma_cm_id* id;
static struct rdma_event_channel* channel;
static struct ibv_cq* cq;
static struct ibv_mr *memory_mr, *hello_mr;
static int is_server, receives_done, receives_flushed, own_done, next_receive;
static enum ibv_wc_status own_status;

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("failed: ");
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
  exit(1);
}

static long option(const char* name) {
  for (size_t i = 0; i < sizeof options / sizeof options[0]; ++i) {
    if (strcmp(options[i].name, name) == 0) return options[i].value;
  }
  fail("no option %s", name);
}

static void take_option(const char* word) {
  const char* equals = strchr(word, '=');
  for (size_t i = 0; equals != NULL && i < sizeof options / sizeof options[0]; ++i) {
    const size_t length = (size_t)(equals - word);
    if (strlen(options[i].name) == length && strncmp(options[i].name, word, length) == 0) {
      options[i].value = strtol(equals + 1, NULL, 10);
      return;
    }
  }
  fail("unknown option %s", word);
}

// What an end's octets look like; `turn` differs from round to round and from end to end.
static uint8_t pattern(long i, unsigned turn) {
  return (uint8_t)((unsigned long)i * 31 + (unsigned long)(i >> 8) * 7 + turn);
}
static unsigned turn_of(int server, uint32_t round) {
  return (server ? 100 : 10) + round;
}

static void fill(uint8_t* octets, long length, unsigned turn) {
  for (long i = 0; i < length; ++i) octets[i] = pattern(i, turn);
}

static int is_filled(const uint8_t* octets, long length, unsigned turn) {
  for (long i = 0; i < length; ++i) {
    if (octets[i] != pattern(i, turn)) return 0;
  }
  return 1;
}

// The next event; fails unless it is of the kind `wanted`. Acknowledged by the caller.
static struct rdma_cm_event* next_event(enum rdma_cm_event_type wanted) {
  struct rdma_cm_event* event;
  if (rdma_get_cm_event(channel, &event) != 0) fail("rdma_get_cm_event: %s", strerror(errno));
  if (event->event != wanted) {
    fail("%s, status %d, instead of %s", rdma_event_str(event->event), event->status,
         rdma_event_str(wanted));
  }
  return event;
}

static void await(enum rdma_cm_event_type wanted) {
  rdma_ack_cm_event(next_event(wanted));
}

static void tell(const char* what, const struct rdma_cm_event* event) {
  const struct rdma_conn_param* param = &event->param.conn;
  const long length = param->private_data_len;
  printf("%s status=%d ird=%u ord=%u private=%ld %s\n", what, event->status,
         param->responder_resources, param->initiator_depth, length,
         is_filled(param->private_data, length, turn_of(!is_server, 0)) ? "good" : "bad");
}

static void post_receive(void) {
  struct ibv_sge sge = {.addr = (uintptr_t)&hellos[1 + next_receive % kReceives],
                        .length = sizeof hellos[0],
                        .lkey = hello_mr->lkey};
  struct ibv_recv_wr request = {.wr_id = 0, .sg_list = &sge, .num_sge = 1}, *bad;
  if (ibv_post_recv(id->qp, &request, &bad) != 0) fail("ibv_post_recv: %s", strerror(errno));
  next_receive++;
}

static void make_queues(void) {
  struct ibv_pd* pd = ibv_alloc_pd(id->verbs);
  cq = ibv_create_cq(id->verbs, 512, NULL, NULL, 0);
  if (pd == NULL || cq == NULL) fail("no domain or queue: %s", strerror(errno));
  struct ibv_qp_init_attr attributes = {
      .send_cq = cq,
      .recv_cq = cq,
      .cap = {.max_send_wr = 260, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC,
      .sq_sig_all = 1};
  if (rdma_create_qp(id, pd, &attributes) != 0) fail("rdma_create_qp: %s", strerror(errno));
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  memory_mr = ibv_reg_mr(pd, memory, 3 * (size_t)kSizeMax, access);
  hello_mr = ibv_reg_mr(pd, hellos, sizeof hellos, IBV_ACCESS_LOCAL_WRITE);
  if (memory_mr == NULL || hello_mr == NULL) fail("ibv_reg_mr: %s", strerror(errno));
  for (int i = 0; i < kReceives; ++i) post_receive();
}

static struct rdma_conn_param parameters(void) {
  static uint8_t octets[kPrivateMax];
  fill(octets, kPrivateMax, turn_of(is_server, 0));
  return (struct rdma_conn_param){.private_data = octets,
                                  .private_data_len = (uint8_t)option("private"),
                                  .responder_resources = (uint8_t)option("ird"),
                                  .initiator_depth = (uint8_t)option("ord"),
                                  .retry_count = 7,
                                  .rnr_retry_count = 7};
}

static void connect_to(struct sockaddr* address) {
  if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) != 0) fail("no id: %s", strerror(errno));
  if (rdma_resolve_addr(id, NULL, address, 5000) != 0) fail("resolve: %s", strerror(errno));
  await(RDMA_CM_EVENT_ADDR_RESOLVED);
  if (rdma_resolve_route(id, 5000) != 0) fail("route: %s", strerror(errno));
  await(RDMA_CM_EVENT_ROUTE_RESOLVED);
  make_queues();
  struct rdma_conn_param param = parameters();
  if (rdma_connect(id, &param) != 0) fail("rdma_connect: %s", strerror(errno));
  const int reject = option("reject") != 0;
  struct rdma_cm_event* event =
      next_event(reject ? RDMA_CM_EVENT_REJECTED : RDMA_CM_EVENT_ESTABLISHED);
  tell(reject ? "rejected" : "established", event);
  rdma_ack_cm_event(event);
  if (reject) exit(0);
}

static void accept_at(struct sockaddr* address) {
  struct rdma_cm_id* listener;
  if (rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) != 0 ||
      rdma_bind_addr(listener, address) != 0 || rdma_listen(listener, 4) != 0) {
    fail("listening: %s", strerror(errno));
  }
  struct rdma_cm_event* event = next_event(RDMA_CM_EVENT_CONNECT_REQUEST);
  tell("request", event);
  id = event->id;
  rdma_ack_cm_event(event);
  struct rdma_conn_param param = parameters();
  if (option("reject") != 0) {
    if (rdma_reject(id, param.private_data, param.private_data_len) != 0) {
      fail("rdma_reject: %s", strerror(errno));
    }
    rdma_destroy_id(id);
    exit(0);
  }
  make_queues();
  if (rdma_accept(id, &param) != 0) fail("rdma_accept: %s", strerror(errno));
  event = next_event(RDMA_CM_EVENT_ESTABLISHED);
  tell("established", event);
  rdma_ack_cm_event(event);
}

// Takes one completion, if there is one. A flood looks for the end in its own completions.
static void poll_once(void) {
  struct ibv_wc wc;
  const int n = ibv_poll_cq(cq, 1, &wc);
  if (n < 0) fail("ibv_poll_cq");
  if (n == 0) return;
  if (wc.wr_id == 0) {
    if (wc.status == IBV_WC_SUCCESS) {
      receives_done++;
    } else if (option("flood") == 0) {
      fail("a receive: %s", ibv_wc_status_str(wc.status));
    } else {
      receives_flushed++;
    }
  } else {
    own_done++;
    if (wc.status != IBV_WC_SUCCESS) own_status = wc.status;
  }
}

static void post(enum ibv_wr_opcode opcode, void* at, uint32_t length, uint32_t lkey,
                 uint64_t remote, uint32_t key) {
  struct ibv_sge sge = {.addr = (uintptr_t)at, .length = length, .lkey = lkey};
  struct ibv_send_wr request = {.wr_id = 1,
                                .sg_list = &sge,
                                .num_sge = 1,
                                .opcode = opcode,
                                .wr.rdma = {.remote_addr = remote, .rkey = key}};
  struct ibv_send_wr* bad;
  const int error = ibv_post_send(id->qp, &request, &bad);
  if (error != 0) fail("ibv_post_send, opcode %d: %s", (int)opcode, strerror(error));
}

static void await_own(int count) {
  while (own_done < count) poll_once();
  if (own_status != IBV_WC_SUCCESS) fail("completion: %s", ibv_wc_status_str(own_status));
  own_done = 0;
}

static void send_hello(uint32_t round) {
  hellos[0] = (struct Hello){htobe64((uintptr_t)memory), htobe32(memory_mr->rkey), htobe32(round)};
  post(IBV_WR_SEND, &hellos[0], sizeof hellos[0], hello_mr->lkey, 0, 0);
  await_own(1);
}

static struct Hello receive_hello(uint32_t round) {
  static int taken;
  while (receives_done <= taken) {
    poll_once();
    if (own_status != IBV_WC_SUCCESS) fail("completion: %s", ibv_wc_status_str(own_status));
  }
  const struct Hello hello = hellos[1 + taken++ % kReceives];
  // None after the last: the peer may have left by then, and siw does not flush what comes later.
  if (round < (uint32_t)option("rounds")) post_receive();
  if (be32toh(hello.round) != round) fail("round %u, not %u", be32toh(hello.round), round);
  return hello;
}

// This end's half of a round. The other knows of it by the Send, which is placed after the Writes.
static void act(const struct Hello* peer, uint32_t round) {
  const uint64_t remote = be64toh(peer->address);
  const uint32_t size = (uint32_t)option("size"), key = be32toh(peer->key);
  const int reads = (int)option("reads");
  fill(sink, size, 0);
  // By then the peer has read the source of the last round.
  fill(source, size, turn_of(is_server, round));
  post(IBV_WR_RDMA_WRITE, source, size, memory_mr->lkey, remote, key);
  await_own(1);
  // Each Read brings a piece of its own.
  for (int i = 0; i < reads; ++i) {
    const uint32_t begin = (uint32_t)((uint64_t)size * (uint32_t)i / (uint32_t)reads);
    const uint32_t end = (uint32_t)((uint64_t)size * (uint32_t)(i + 1) / (uint32_t)reads);
    post(IBV_WR_RDMA_READ, sink + begin, end - begin, memory_mr->lkey, remote + kSizeMax + begin,
         key);
  }
  if (reads > 0) {
    await_own(reads);
    // The client acts first, so the server's source is still of the round before.
    const uint32_t of = is_server ? round : round - 1;
    if (!is_filled(sink, size, turn_of(!is_server, of))) fail("round %u: bad Read", round);
  }
  send_hello(round);
}

static void check_written(uint32_t round) {
  if (!is_filled(written, option("size"), turn_of(!is_server, round))) {
    fail("round %u: the peer's Write is not what arrived", round);
  }
}

static struct Hello run_rounds(void) {
  struct Hello peer;
  fill(source, option("size"), turn_of(is_server, 0));
  if (is_server) {
    peer = receive_hello(0);
    send_hello(0);
  } else {
    send_hello(0);
    peer = receive_hello(0);
  }
  for (uint32_t round = 1; round <= (uint32_t)option("rounds"); ++round) {
    if (!is_server) act(&peer, round);
    receive_hello(round);
    check_written(round);
    if (is_server) act(&peer, round);
  }
  return peer;
}

static int event_waits(void) {
  struct pollfd watched = {channel->fd, POLLIN, 0};
  return poll(&watched, 1, 0) > 0;
}

// Writes until one fails. Errors are what is waited for here. siw forgets what is posted when its
// stream is just over, so the end of the connection is an end too.
static void flood(const struct Hello* peer) {
  const uint32_t size = (uint32_t)option("size");
  int posted = 0;
  unsigned looks = 0;
  own_done = 0;
  while (own_status == IBV_WC_SUCCESS) {
    while (posted - own_done < kFloodDepth && own_status == IBV_WC_SUCCESS) {
      struct ibv_sge sge = {.addr = (uintptr_t)source, .length = size, .lkey = memory_mr->lkey};
      struct ibv_send_wr request = {
          .wr_id = 1,
          .sg_list = &sge,
          .num_sge = 1,
          .opcode = IBV_WR_RDMA_WRITE,
          .wr.rdma = {.remote_addr = be64toh(peer->address), .rkey = be32toh(peer->key)}};
      struct ibv_send_wr* bad;
      if (ibv_post_send(id->qp, &request, &bad) != 0) return;
      if (++posted == 32) printf("flooding\n");
    }
    poll_once();
    if (++looks % 4096 == 0 && event_waits()) break;
  }
  for (time_t end = time(NULL) + 3; own_status == IBV_WC_SUCCESS && time(NULL) < end;) poll_once();
  if (own_status == IBV_WC_SUCCESS) printf("lost: %d requests\n", posted - own_done);
  else printf("stopped: %s\n", ibv_wc_status_str(own_status));
}

// After the end every posted receive has to come back, flushed.
static void await_flush(void) {
  while (receives_flushed < next_receive - receives_done) {
    struct ibv_wc wc;
    const int n = ibv_poll_cq(cq, 1, &wc);
    if (n < 0) fail("ibv_poll_cq");
    if (n == 0 || wc.wr_id != 0) continue;
    if (wc.status != IBV_WC_WR_FLUSH_ERR) fail("a receive: %s", ibv_wc_status_str(wc.status));
    receives_flushed++;
  }
}

static struct sockaddr_storage address_of(const char* text, const char* port) {
  struct sockaddr_storage storage = {.ss_family = strchr(text, ':') ? AF_INET6 : AF_INET};
  const uint16_t number = htons((uint16_t)strtol(port, NULL, 10));
  struct sockaddr_in* v4 = (struct sockaddr_in*)&storage;
  struct sockaddr_in6* v6 = (struct sockaddr_in6*)&storage;
  void* at = storage.ss_family == AF_INET ? (void*)&v4->sin_addr : (void*)&v6->sin6_addr;
  if (inet_pton(storage.ss_family, text, at) != 1) fail("no address: %s", text);
  *(storage.ss_family == AF_INET ? &v4->sin_port : &v6->sin6_port) = number;
  return storage;
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc < 4) fail("usage: talk server|client ADDRESS PORT [NAME=NUMBER]...");
  for (int i = 4; i < argc; ++i) take_option(argv[i]);
  is_server = strcmp(argv[1], "server") == 0;
  if (option("size") > kSizeMax || option("reads") > kReadsMax || option("private") > kPrivateMax) {
    fail("too large a number");
  }
  alarm((unsigned)option("patience"));
  // siw sends in the name of whoever posts, and to a peer that is gone that means SIGPIPE.
  signal(SIGPIPE, SIG_IGN);
  memory = calloc(3, kSizeMax);
  channel = rdma_create_event_channel();
  if (memory == NULL || channel == NULL) fail("no memory or channel: %s", strerror(errno));
  written = memory;
  source = memory + kSizeMax;
  sink = source + kSizeMax;

  struct sockaddr_storage address = address_of(argv[2], argv[3]);
  if (is_server) {
    accept_at((struct sockaddr*)&address);
  } else {
    connect_to((struct sockaddr*)&address);
  }
  const struct Hello peer = run_rounds();
  printf("ready\n");
  if (option("flood") != 0) flood(&peer);
  if (option("leave") != 0 && rdma_disconnect(id) != 0) fail("disconnect: %s", strerror(errno));
  await(RDMA_CM_EVENT_DISCONNECTED);
  // A courtesy that the API asks for; that nothing is left to close is no error.
  if (option("leave") == 0) rdma_disconnect(id);
  await_flush();
  printf("over\n");
  return 0;
}

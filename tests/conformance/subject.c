/* The program under test of a dialogue: does by the public verbs and CM API what lines on standard
   input say, and answers each with one line. It knows nothing of weft, so it runs on any RNIC.

   A line is a command and key=value words; README.md lists them. The answer is "ok key=value ...",
   or "error CALL ERRNO". Things that are waited for (events, completions) have a bound. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ENDS = 8, PDS = 4, MEMORIES = 16, WORDS = 24, PATIENCE_MS = 20000, DEPTH = 16, SGES = 4 };

struct end {
  struct rdma_cm_id* id;
  struct ibv_comp_channel* events;
  struct ibv_cq* cq;
};

struct memory {
  char name[16];
  struct ibv_mr* mr;
  unsigned char* octets;
  size_t size;
};

static struct rdma_event_channel* channel;
static struct rdma_cm_id* listener;
static struct ibv_context* device;
static struct ibv_pd* pds[PDS];
static struct end ends[ENDS];
static struct memory memories[MEMORIES];

/* The words of the line in work. */
static char* keys[WORDS];
static char* values[WORDS];
static int words;

static const char* text(const char* key, const char* otherwise) {
  for (int i = 0; i < words; ++i) {
    if (strcmp(keys[i], key) == 0) return values[i];
  }
  return otherwise;
}

static uint64_t number(const char* key, uint64_t otherwise) {
  const char* value = text(key, NULL);
  return value == NULL ? otherwise : strtoull(value, NULL, 0);
}

static int has(const char* key, const char* word) {
  return strstr(text(key, ""), word) != NULL;
}

static int nibble(char digit) {
  static const char digits[] = "0123456789abcdef";
  const char* found = digit != '\0' ? strchr(digits, digit) : NULL;
  return found != NULL ? (int)(found - digits) : -1;
}

static size_t unhex(const char* hex, unsigned char* out, size_t room) {
  size_t count = 0;
  for (; count < room && nibble(hex[0]) >= 0 && nibble(hex[1]) >= 0; hex += 2) {
    out[count++] = (unsigned char)(nibble(hex[0]) * 16 + nibble(hex[1]));
  }
  return count;
}

static void print_hex(const unsigned char* octets, size_t count) {
  for (size_t i = 0; i < count; ++i) printf("%02x", octets[i]);
}

/* The answer to a call that gave 0 or failed with errno. */
static int answer(const char* call, int failed) {
  if (failed) return printf("error %s %s\n", call, strerrorname_np(errno));
  return printf("ok\n");
}

static int readable(int fd) {
  struct pollfd wanted = {fd, POLLIN, 0};
  return poll(&wanted, 1, PATIENCE_MS) == 1;
}

static struct end* end_of_line(void) {
  return &ends[number("id", 1) % ENDS];
}

static struct memory* memory_named(const char* name) {
  for (int i = 0; i < MEMORIES; ++i) {
    if (memories[i].octets != NULL && strcmp(memories[i].name, name) == 0) return &memories[i];
  }
  fprintf(stderr, "subject: there is no memory %s\n", name);
  exit(2);
}

static struct ibv_pd* domain(uint64_t which) {
  struct ibv_pd** pd = &pds[which % PDS];
  if (*pd == NULL) *pd = ibv_alloc_pd(device);
  return *pd;
}

/* CQ and QP for an id that has a device. */
static int equip(struct end* end) {
  device = end->id->verbs;
  end->events = ibv_create_comp_channel(device);
  if (end->events == NULL) return -1;
  end->cq = ibv_create_cq(device, (int)number("cq", 4 * DEPTH), NULL, end->events, 0);
  if (end->cq == NULL) return -1;
  struct ibv_qp_init_attr attr = {0};
  attr.send_cq = attr.recv_cq = end->cq;
  attr.qp_type = IBV_QPT_RC;
  attr.cap.max_send_wr = attr.cap.max_recv_wr = DEPTH;
  attr.cap.max_send_sge = attr.cap.max_recv_sge = SGES;
  return rdma_create_qp(end->id, domain(number("pd", 1)), &attr);
}

static socklen_t to_address(struct sockaddr_storage* to, uint16_t port) {
  const char* host = text("address", "127.0.0.1");
  struct sockaddr_in* v4 = (struct sockaddr_in*)to;
  struct sockaddr_in6* v6 = (struct sockaddr_in6*)to;
  memset(to, 0, sizeof *to);
  if (strchr(host, ':') != NULL) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    inet_pton(AF_INET6, host, &v6->sin6_addr);
    return sizeof *v6;
  }
  v4->sin_family = AF_INET;
  v4->sin_port = htons(port);
  inet_pton(AF_INET, host, &v4->sin_addr);
  return sizeof *v4;
}

static struct rdma_conn_param parameters(unsigned char* data, size_t room) {
  struct rdma_conn_param param = {0};
  param.responder_resources = (uint8_t)number("ird", 4);
  param.initiator_depth = (uint8_t)number("ord", 4);
  param.retry_count = param.rnr_retry_count = 7;
  param.private_data_len = (uint8_t)unhex(text("data", ""), data, room);
  param.private_data = data;
  return param;
}

static int do_listen(void) {
  struct sockaddr_storage address;
  to_address(&address, 0);
  if (rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) != 0 ||
      rdma_bind_addr(listener, (struct sockaddr*)&address) != 0 || rdma_listen(listener, 8) != 0) {
    return answer("rdma_listen", 1);
  }
  return printf("ok port=%d\n", ntohs(rdma_get_src_port(listener)));
}

/* Waits for this event while an id is being prepared. */
static int next_is(enum rdma_cm_event_type wanted) {
  struct rdma_cm_event* event;
  if (!readable(channel->fd) || rdma_get_cm_event(channel, &event) != 0) return 0;
  const int is_it = event->event == wanted;
  if (!is_it) fprintf(stderr, "subject: %s\n", rdma_event_str(event->event));
  rdma_ack_cm_event(event);
  return is_it;
}

static int do_resolve(void) {
  struct end* end = end_of_line();
  struct sockaddr_storage address;
  to_address(&address, (uint16_t)number("port", 0));
  if (rdma_create_id(channel, &end->id, NULL, RDMA_PS_TCP) != 0 ||
      rdma_resolve_addr(end->id, NULL, (struct sockaddr*)&address, PATIENCE_MS) != 0 ||
      !next_is(RDMA_CM_EVENT_ADDR_RESOLVED) || rdma_resolve_route(end->id, PATIENCE_MS) != 0 ||
      !next_is(RDMA_CM_EVENT_ROUTE_RESOLVED)) {
    return answer("rdma_resolve_addr", 1);
  }
  return answer("rdma_create_qp", equip(end));
}

static int do_connect(void) {
  unsigned char data[256];
  struct rdma_conn_param param = parameters(data, sizeof data);
  return answer("rdma_connect", rdma_connect(end_of_line()->id, &param));
}

static int do_accept(void) {
  unsigned char data[256];
  struct rdma_conn_param param = parameters(data, sizeof data);
  return answer("rdma_accept", rdma_accept(end_of_line()->id, &param));
}

static int do_reject(void) {
  unsigned char data[256];
  const size_t count = unhex(text("data", ""), data, sizeof data);
  return answer("rdma_reject", rdma_reject(end_of_line()->id, data, (uint8_t)count));
}

static int do_disconnect(void) {
  return answer("rdma_disconnect", rdma_disconnect(end_of_line()->id));
}

/* The QP goes; its memory and CQ stay for questions. */
static int do_destroy(void) {
  rdma_destroy_qp(end_of_line()->id);
  return printf("ok\n");
}

static int do_modify(void) {
  struct ibv_qp_attr attr = {0};
  attr.qp_state = has("state", "sqd")   ? IBV_QPS_SQD
                  : has("state", "sqe") ? IBV_QPS_SQE
                                        : IBV_QPS_ERR;
  errno = ibv_modify_qp(end_of_line()->id->qp, &attr, IBV_QP_STATE);
  return answer("ibv_modify_qp", errno != 0);
}

static int do_query(void) {
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  errno = ibv_query_qp(end_of_line()->id->qp, &attr, IBV_QP_STATE, &init);
  if (errno != 0) return answer("ibv_query_qp", 1);
  static const char* const names[] = {"reset", "init", "rtr", "rts", "sqd", "sqe", "err"};
  return printf("ok state=%s ird=%d ord=%d\n", names[attr.qp_state], attr.max_dest_rd_atomic,
                attr.max_rd_atomic);
}

/* The next event of the CM. A request becomes the end named by id=. */
static int do_event(void) {
  struct rdma_cm_event* event;
  if (!readable(channel->fd)) {
    return printf("error rdma_get_cm_event ETIME\n");
  }
  if (rdma_get_cm_event(channel, &event) != 0) return answer("rdma_get_cm_event", 1);
  if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
    struct end* end = end_of_line();
    end->id = event->id;
    if (equip(end) != 0) return answer("rdma_create_qp", 1);
  }
  int which = 0;
  for (int i = 0; i < ENDS; ++i) {
    if (ends[i].id == event->id) which = i;
  }
  const struct rdma_conn_param* param = &event->param.conn;
  printf("ok event=%s id=%d status=%d ird=%d ord=%d data=", rdma_event_str(event->event), which,
         event->status, param->responder_resources, param->initiator_depth);
  if (param->private_data != NULL) print_hex(param->private_data, param->private_data_len);
  printf("\n");
  rdma_ack_cm_event(event);
  return 0;
}

static int do_async(void) {
  struct ibv_async_event event;
  if (!readable(device->async_fd)) {
    return printf("error ibv_get_async_event ETIME\n");
  }
  if (ibv_get_async_event(device, &event) != 0) return answer("ibv_get_async_event", 1);
  static const struct {
    enum ibv_event_type type;
    const char* name;
  } names[] = {{IBV_EVENT_CQ_ERR, "cq-err"},
               {IBV_EVENT_QP_FATAL, "qp-fatal"},
               {IBV_EVENT_QP_REQ_ERR, "qp-req-err"},
               {IBV_EVENT_QP_ACCESS_ERR, "qp-access-err"}};
  const char* name = "other";
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    if (names[i].type == event.event_type) name = names[i].name;
  }
  printf("ok event=%s\n", name);
  ibv_ack_async_event(&event);
  return 0;
}

static int rights(void) {
  return (has("rights", "local-write") ? IBV_ACCESS_LOCAL_WRITE : 0) |
         (has("rights", "remote-write") ? IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE : 0) |
         (has("rights", "remote-read") ? IBV_ACCESS_REMOTE_READ : 0) |
         (has("rights", "remote-atomic") ? IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE : 0);
}

static int do_memory(void) {
  struct memory* memory = memories;
  while (memory->octets != NULL) ++memory;
  snprintf(memory->name, sizeof memory->name, "%s", text("name", "m"));
  memory->size = number("size", 4096);
  memory->octets = aligned_alloc(4096, (memory->size + 4095) / 4096 * 4096);
  memset(memory->octets, '.', memory->size);
  memory->mr = ibv_reg_mr(domain(number("pd", 1)), memory->octets, memory->size, rights());
  if (memory->mr == NULL) return answer("ibv_reg_mr", 1);
  return printf("ok stag=0x%x to=0x%llx\n", memory->mr->rkey,
                (unsigned long long)(uintptr_t)memory->octets);
}

static int do_reregister(void) {
  struct memory* memory = memory_named(text("name", "m"));
  return answer("ibv_rereg_mr",
                ibv_rereg_mr(memory->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, rights()));
}

static int do_deregister(void) {
  struct memory* memory = memory_named(text("name", "m"));
  errno = ibv_dereg_mr(memory->mr);
  memory->mr = NULL;
  return answer("ibv_dereg_mr", errno != 0);
}

static int do_put(void) {
  struct memory* memory = memory_named(text("name", "m"));
  const size_t offset = number("offset", 0);
  unhex(text("data", ""), memory->octets + offset, memory->size - offset);
  return printf("ok\n");
}

static int do_get(void) {
  const struct memory* memory = memory_named(text("name", "m"));
  printf("ok data=");
  print_hex(memory->octets + number("offset", 0), number("size", 0));
  return printf("\n");
}

/* The one SGE that the line names, or none. */
static int sge_of_line(struct ibv_sge* sge) {
  if (text("from", NULL) == NULL) return 0;
  const struct memory* memory = memory_named(text("from", "m"));
  sge->addr = (uintptr_t)memory->octets + number("offset", 0);
  sge->length = (uint32_t)number("size", 0);
  sge->lkey = memory->mr != NULL ? memory->mr->lkey : (uint32_t)number("lkey", 1);
  return 1;
}

static int do_receive(void) {
  struct ibv_sge sge = {0};
  struct ibv_recv_wr wr = {0}, *bad;
  wr.wr_id = number("wr", 0);
  wr.num_sge = sge_of_line(&sge);
  wr.sg_list = &sge;
  errno = ibv_post_recv(end_of_line()->id->qp, &wr, &bad);
  return answer("ibv_post_recv", errno != 0);
}

/* What the line says of the peer's memory; invalidation and immediate data share a word. */
static void aim(struct ibv_send_wr* wr) {
  switch (wr->opcode) {
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_READ:
      wr->wr.rdma.remote_addr = number("to", 0);
      wr->wr.rdma.rkey = (uint32_t)number("stag", 0);
      break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      wr->wr.atomic.remote_addr = number("to", 0);
      wr->wr.atomic.rkey = (uint32_t)number("stag", 0);
      wr->wr.atomic.compare_add = number("add", number("compare", 0));
      wr->wr.atomic.swap = number("swap", 0);
      break;
    default:
      wr->invalidate_rkey = (uint32_t)number("stag", 0);
  }
  if (text("imm", NULL) != NULL) wr->imm_data = htonl((uint32_t)number("imm", 0));
}

static int do_post(void) {
  static const struct {
    const char* name;
    enum ibv_wr_opcode opcode;
  } operations[] = {{"send", IBV_WR_SEND},
                    {"send-inv", IBV_WR_SEND_WITH_INV},
                    {"send-imm", IBV_WR_SEND_WITH_IMM},
                    {"write", IBV_WR_RDMA_WRITE},
                    {"write-imm", IBV_WR_RDMA_WRITE_WITH_IMM},
                    {"read", IBV_WR_RDMA_READ},
                    {"fetch-add", IBV_WR_ATOMIC_FETCH_AND_ADD},
                    {"cmp-swap", IBV_WR_ATOMIC_CMP_AND_SWP},
                    {"local-inv", IBV_WR_LOCAL_INV}};
  struct ibv_sge sge = {0};
  struct ibv_send_wr wr = {0}, *bad;
  wr.wr_id = number("wr", 0);
  for (size_t i = 0; i < sizeof operations / sizeof *operations; ++i) {
    if (strcmp(text("op", "send"), operations[i].name) == 0) wr.opcode = operations[i].opcode;
  }
  wr.send_flags = (has("flags", "unsignaled") ? 0 : IBV_SEND_SIGNALED) |
                  (has("flags", "solicited") ? IBV_SEND_SOLICITED : 0) |
                  (has("flags", "fence") ? IBV_SEND_FENCE : 0);
  wr.num_sge = sge_of_line(&sge);
  wr.sg_list = &sge;
  aim(&wr);
  errno = ibv_post_send(end_of_line()->id->qp, &wr, &bad);
  return answer("ibv_post_send", errno != 0);
}

/* The next completion; with wait=0 the one that is there, or none. */
static int do_completion(void) {
  static const char* const names[] = {
      [IBV_WC_SEND] = "send",          [IBV_WC_RDMA_WRITE] = "write",
      [IBV_WC_RDMA_READ] = "read",     [IBV_WC_FETCH_ADD] = "fetch-add",
      [IBV_WC_COMP_SWAP] = "cmp-swap", [IBV_WC_LOCAL_INV] = "local-inv",
      [IBV_WC_RECV] = "receive",       [IBV_WC_RECV_RDMA_WITH_IMM] = "receive-imm"};
  const time_t last = time(NULL) + (number("wait", 1) != 0 ? PATIENCE_MS / 1000 : -1);
  struct ibv_wc wc;
  int found;
  while ((found = ibv_poll_cq(end_of_line()->cq, 1, &wc)) == 0 && time(NULL) <= last) {
    poll(NULL, 0, 1);
  }
  if (found < 0) return answer("ibv_poll_cq", 1);
  if (found == 0) {
    return printf("ok none=1\n");
  }
  /* In error only the number and the status mean anything. */
  if (wc.status != IBV_WC_SUCCESS) {
    return printf("ok wr=%d status=%d\n", (int)wc.wr_id, wc.status);
  }
  const int known = (size_t)wc.opcode < sizeof names / sizeof *names && names[wc.opcode] != NULL;
  const int sent = wc.opcode == IBV_WC_SEND || wc.opcode == IBV_WC_RDMA_WRITE;
  printf("ok wr=%d status=0 op=%s length=%u", (int)wc.wr_id, known ? names[wc.opcode] : "other",
         sent ? 0 : wc.byte_len);
  if (wc.wc_flags & IBV_WC_WITH_INV) printf(" invalidated=0x%x", wc.invalidated_rkey);
  if (wc.wc_flags & IBV_WC_WITH_IMM) printf(" imm=0x%x", ntohl(wc.imm_data));
  return printf("\n");
}

static int do_arm(void) {
  errno = ibv_req_notify_cq(end_of_line()->cq, (int)number("solicited", 0));
  return answer("ibv_req_notify_cq", errno != 0);
}

/* The next event of the CQ's channel; with wait=0 the one that is there, or none. */
static int do_wake(void) {
  struct end* end = end_of_line();
  struct pollfd wanted = {end->events->fd, POLLIN, 0};
  if (poll(&wanted, 1, number("wait", 1) != 0 ? PATIENCE_MS : 0) != 1) return printf("ok none=1\n");
  struct ibv_cq* cq;
  void* context;
  if (ibv_get_cq_event(end->events, &cq, &context) != 0) return answer("ibv_get_cq_event", 1);
  ibv_ack_cq_events(cq, 1);
  return printf("ok woken=1\n");
}

static void end_all(void) {
  for (int i = 0; i < ENDS; ++i) {
    if (ends[i].id == NULL) continue;
    if (ends[i].id->qp != NULL) rdma_destroy_qp(ends[i].id);
    if (ends[i].cq != NULL) ibv_destroy_cq(ends[i].cq);
    if (ends[i].events != NULL) ibv_destroy_comp_channel(ends[i].events);
    rdma_destroy_id(ends[i].id);
  }
  for (int i = 0; i < MEMORIES; ++i) {
    if (memories[i].mr != NULL) ibv_dereg_mr(memories[i].mr);
    free(memories[i].octets);
  }
  for (int i = 0; i < PDS; ++i) {
    if (pds[i] != NULL) ibv_dealloc_pd(pds[i]);
  }
  if (listener != NULL) rdma_destroy_id(listener);
  rdma_destroy_event_channel(channel);
}

static const struct {
  const char* name;
  int (*run)(void);
} commands[] = {{"listen", do_listen},
                {"resolve", do_resolve},
                {"connect", do_connect},
                {"accept", do_accept},
                {"reject", do_reject},
                {"disconnect", do_disconnect},
                {"destroy", do_destroy},
                {"modify", do_modify},
                {"query", do_query},
                {"event", do_event},
                {"async", do_async},
                {"memory", do_memory},
                {"reregister", do_reregister},
                {"deregister", do_deregister},
                {"put", do_put},
                {"get", do_get},
                {"receive", do_receive},
                {"post", do_post},
                {"arm", do_arm},
                {"completion", do_completion},
                {"wake", do_wake}};

static int run(char* line) {
  char* rest = NULL;
  const char* name = strtok_r(line, " \n", &rest);
  words = 0;
  for (char* word; words < WORDS && (word = strtok_r(NULL, " \n", &rest)) != NULL; ++words) {
    char* equals = strchr(word, '=');
    keys[words] = word;
    values[words] = equals != NULL ? equals + 1 : word + strlen(word);
    if (equals != NULL) *equals = '\0';
  }
  for (size_t i = 0; name != NULL && i < sizeof commands / sizeof *commands; ++i) {
    if (strcmp(name, commands[i].name) == 0) return commands[i].run();
  }
  return printf("error command ENOSYS\n");
}

int main(void) {
  channel = rdma_create_event_channel();
  if (channel == NULL) {
    perror("subject: rdma_create_event_channel");
    return 1;
  }
  char* line = NULL;
  size_t room = 0;
  while (getline(&line, &room, stdin) > 0) {
    run(line);
    fflush(stdout);
  }
  free(line);
  end_all();
  return 0;
}

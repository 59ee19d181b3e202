/* A server that lets its receive CQ run full, and a client that fills it; for bad_input.py.

   usage: stock_full_cq serve|connect PORT
   The server expects the event IBV_EVENT_CQ_ERR, no completion overwritten, and the end of the
   connection; the client expects the end of the connection. Exit status 0 if so. */
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OCTETS = 64, CQ_DEPTH = 4, PATIENCE_S = 10 };

static char memory[OCTETS];

static void need(int holds, const char* what) {
  if (holds) return;
  perror(what);
  exit(1);
}

static struct rdma_cm_id* endpoint(const char* port, int passive, struct ibv_qp_init_attr* attr) {
  struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP,
                                .ai_flags = passive ? RAI_PASSIVE : 0};
  struct rdma_addrinfo* resolved;
  struct rdma_cm_id* id;
  need(rdma_getaddrinfo("127.0.0.1", port, &hints, &resolved) == 0, "rdma_getaddrinfo");
  need(rdma_create_ep(&id, resolved, NULL, attr) == 0, "rdma_create_ep");
  rdma_freeaddrinfo(resolved);
  return id;
}

static int serve(const char* port) {
  struct rdma_cm_id *listening = endpoint(port, 1, NULL), *id;
  need(rdma_listen(listening, 1) == 0, "rdma_listen");
  need(rdma_get_request(listening, &id) == 0, "rdma_get_request");
  struct ibv_cq* small = ibv_create_cq(id->verbs, CQ_DEPTH, NULL, NULL, 0);
  need(small != NULL, "ibv_create_cq");
  const int receives = small->cqe + 8;  /* the depth may have been rounded up */
  struct ibv_qp_init_attr attr = {.cap = {8, (uint32_t)receives, 1, 1, 0},
                                  .qp_type = IBV_QPT_RC, .recv_cq = small, .send_cq = small};
  need(rdma_create_qp(id, NULL, &attr) == 0, "rdma_create_qp");
  struct ibv_mr* region = rdma_reg_msgs(id, memory, OCTETS);
  need(region != NULL, "rdma_reg_msgs");
  for (uintptr_t i = 0; i < (uintptr_t)receives; ++i) {
    need(rdma_post_recv(id, (void*)i, memory, OCTETS, region) == 0, "rdma_post_recv");
  }
  const int32_t wanted = receives;
  struct rdma_conn_param param = {.private_data = &wanted, .private_data_len = sizeof wanted};
  need(rdma_accept(id, &param) == 0, "rdma_accept");

  alarm(PATIENCE_S);
  struct ibv_async_event event;
  do {
    need(ibv_get_async_event(id->verbs, &event) == 0, "ibv_get_async_event");
    printf("server: %s\n", ibv_event_type_str(event.event_type));
    ibv_ack_async_event(&event);
  } while (event.event_type != IBV_EVENT_CQ_ERR);
  need(event.element.cq == small, "the event is of another CQ");

  int taken = 0, polled;
  struct ibv_wc done;
  while ((polled = ibv_poll_cq(small, 1, &done)) == 1) {
    if (done.wr_id != (uint64_t)taken || done.status != IBV_WC_SUCCESS) {
      printf("server: completion %d is of receive %d: %s\n", taken, (int)done.wr_id,
             ibv_wc_status_str(done.status));
      return 1;
    }
    ++taken;
  }
  printf("server: %d completions in a CQ of %d, then ibv_poll_cq says %d\n", taken, small->cqe,
         polled);
  if (polled == 0 && taken != small->cqe) return 1;
  rdma_disconnect(id);
  rdma_dereg_mr(region);
  rdma_destroy_qp(id);
  need(ibv_destroy_cq(small) == 0, "ibv_destroy_cq");
  rdma_destroy_id(id);
  rdma_destroy_ep(listening);
  return 0;
}

static int connect_and_send(const char* port) {
  struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
  struct rdma_cm_id* id = endpoint(port, 0, &attr);
  struct ibv_mr* region = rdma_reg_msgs(id, memory, OCTETS);
  need(region != NULL, "rdma_reg_msgs");
  need(rdma_post_recv(id, NULL, memory, OCTETS, region) == 0, "rdma_post_recv");
  struct rdma_conn_param param = {0};
  need(rdma_connect(id, &param) == 0, "rdma_connect");
  int32_t count;
  memcpy(&count, id->event->param.conn.private_data, sizeof count);
  struct ibv_wc done = {.status = IBV_WC_SUCCESS};
  for (int i = 0; i < count && done.status == IBV_WC_SUCCESS; ++i) {
    if (rdma_post_send(id, NULL, memory, OCTETS, region, 0) != 0) break;  /* ended already */
    while (ibv_poll_cq(id->send_cq, 1, &done) == 0) {
    }
  }
  /* The posted receive shows the end of the connection. */
  const time_t last = time(NULL) + PATIENCE_S;
  int flushed = 0;
  while (!flushed && time(NULL) <= last) {
    flushed = ibv_poll_cq(id->recv_cq, 1, &done) == 1;
  }
  printf("client: the receive ended with: %s\n",
         flushed ? ibv_wc_status_str(done.status) : "nothing");
  rdma_disconnect(id);
  rdma_dereg_mr(region);
  rdma_destroy_ep(id);
  return flushed && done.status == IBV_WC_WR_FLUSH_ERR ? 0 : 1;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: stock_full_cq serve|connect PORT\n");
    return 2;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  return strcmp(argv[1], "serve") ? connect_and_send(argv[2]) : serve(argv[2]);
}

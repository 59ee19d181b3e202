// Completions, events, states, and what a fork leaves of the objects.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "front/libibverbs/testing/front_test.h"

extern "C" weft::verbs::Runtime* weft_private_runtime();

namespace weft::front {
namespace {

TEST_F(FrontTest, EveryStatusHasItsOwnName) {
  create_qp();
  using Status = device::CompletionStatus;
  const std::pair<Status, ibv_wc_status> kRows[] = {
      {Status::Success, IBV_WC_SUCCESS},
      {Status::LocalLength, IBV_WC_LOC_LEN_ERR},
      {Status::LocalQPOperation, IBV_WC_LOC_QP_OP_ERR},
      {Status::LocalProtection, IBV_WC_LOC_PROT_ERR},
      {Status::Flushed, IBV_WC_WR_FLUSH_ERR},
      {Status::BadResponse, IBV_WC_BAD_RESP_ERR},
      {Status::RemoteAccess, IBV_WC_REM_ACCESS_ERR},
      {Status::RemoteOperation, IBV_WC_REM_OP_ERR},
      {Status::RemoteInvalidRequest, IBV_WC_REM_INV_REQ_ERR},
      {Status::WindowBind, IBV_WC_MW_BIND_ERR},
      {Status::Fatal, IBV_WC_FATAL_ERR},
  };
  for (const auto& [status, name] : kRows) {
    complete(8, status, device::CompletionOpcode::Write);
    ibv_wc wc;
    std::memset(&wc, 0xee, sizeof wc);
    ASSERT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
    EXPECT_EQ(wc.status, name);
    EXPECT_EQ(wc.vendor_err == 0, status == Status::Success);
    EXPECT_EQ(wc.wr_id, 8u);
    EXPECT_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
    EXPECT_EQ(wc.qp_num, qp->qp_num);
    EXPECT_EQ(wc.byte_len, 77u);
    EXPECT_EQ(wc.wc_flags, 0u);
  }
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
  EXPECT_EQ(ibv_poll_cq(cq, 0, &wc), 0);
  EXPECT_LT(ibv_poll_cq(cq, -1, &wc), 0);
}

TEST_F(FrontTest, AnInvalidatedSTagIsTold) {
  create_qp();
  device::CompletionEntry entry = {};
  entry.opcode = device::CompletionOpcode::Receive;
  entry.flags = device::kInvalidated;
  entry.invalidated_stag = 0x1234;
  device.complete(cq->handle, entry);
  ibv_wc wc;
  ASSERT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_WITH_INV));
  EXPECT_EQ(wc.invalidated_rkey, 0x1234u);
}

TEST_F(FrontTest, CompletionEventsReachTheirCQ) {
  EXPECT_EQ(ibv_req_notify_cq(cq, 0), 0);
  EXPECT_EQ(ibv_req_notify_cq(cq, 1), 0);
  EXPECT_EQ(device.calls("arm_cq_solicited"), 1);
  device.report_completion(cq->handle);
  ibv_cq* which = nullptr;
  void* context_of = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &which, &context_of), 0);
  EXPECT_EQ(which, cq);
  EXPECT_EQ(context_of, this);
  ibv_ack_cq_events(cq, 1);
  EXPECT_EQ(cq->comp_events_completed, 1u);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), EBUSY);
  fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  EXPECT_EQ(ibv_get_cq_event(channel, &which, &context_of), -1);
  EXPECT_EQ(errno, EAGAIN);
  device.report_completion(cq->handle);  // and nobody fetches it: TearDown must not hang
}

TEST_F(FrontTest, AsyncEventsNameTheirObject) {
  create_qp();
  const std::uint64_t qp_cookie = device.qp_request(qp->qp_num).cookie;
  const auto next = [&] {
    ibv_async_event event = {};
    EXPECT_EQ(ibv_get_async_event(context, &event), 0);
    ibv_ack_async_event(&event);
    return event;
  };
  using Kind = device::AsyncEventKind;
  const std::pair<Kind, ibv_event_type> kRows[] = {
      {Kind::QPFatal, IBV_EVENT_QP_FATAL},
      {Kind::QPRequestError, IBV_EVENT_QP_REQ_ERR},
      {Kind::QPAccessError, IBV_EVENT_QP_ACCESS_ERR},
      {Kind::LastReceive, IBV_EVENT_QP_LAST_WQE_REACHED},
  };
  for (const auto& [kind, type] : kRows) {
    device.report_async(kind, qp_cookie);
    const auto event = next();
    EXPECT_EQ(event.event_type, type);
    EXPECT_EQ(event.element.qp, qp);
  }
  device.report_async(Kind::CQError, device.cq_cookie(cq->handle));
  const auto event = next();
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, cq);
  device.report_async(Kind::QPFatal, qp_cookie);  // undelivered: destroy purges it
}

TEST_F(FrontTest, StatesMapAsKernelIWARPDevicesMapThem) {
  create_qp();
  ibv_qp_attr attr = {};
  ibv_qp_init_attr init = {};
  const auto query = [&] {
    EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
  };
  const auto modify = [&](ibv_qp_state state) {
    attr = {};
    attr.qp_state = state;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
  };
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
  EXPECT_EQ(query(), IBV_QPS_INIT);
  EXPECT_EQ(init.cap.max_send_wr, 4u);
  EXPECT_EQ(init.send_cq, cq);
  EXPECT_EQ(modify(IBV_QPS_INIT), 0);
  EXPECT_EQ(modify(IBV_QPS_RTR), EINVAL) << "only the connection manager connects";
  EXPECT_EQ(modify(IBV_QPS_RTS), EINVAL);
  device.qp_state(qp->qp_num) = device::QPState::RTS;
  EXPECT_EQ(modify(IBV_QPS_RTR), 0);
  EXPECT_EQ(modify(IBV_QPS_RTS), 0);
  EXPECT_EQ(modify(IBV_QPS_INIT), EINVAL);
  EXPECT_EQ(query(), IBV_QPS_RTS);
  EXPECT_EQ(modify(IBV_QPS_SQD), 0);
  EXPECT_EQ(query(), IBV_QPS_SQD);
  EXPECT_EQ(modify(IBV_QPS_ERR), 0) << "it is ending already";
  EXPECT_EQ(query(), IBV_QPS_SQD);
  device.qp_state(qp->qp_num) = device::QPState::RTS;
  EXPECT_EQ(modify(IBV_QPS_SQE), 0);
  EXPECT_EQ(query(), IBV_QPS_SQE);
  device.qp_state(qp->qp_num) = device::QPState::RTS;
  EXPECT_EQ(modify(IBV_QPS_ERR), 0);
  EXPECT_EQ(query(), IBV_QPS_ERR);
  EXPECT_EQ(modify(IBV_QPS_RESET), 0);
  EXPECT_EQ(query(), IBV_QPS_INIT);
  EXPECT_EQ(modify(IBV_QPS_UNKNOWN), EINVAL);
}

TEST_F(FrontTest, ExtendedPollingReadsWhatWasAskedFor) {
  create_qp();
  EXPECT_FALSE(device.cq_timed) << "a plain CQ has nobody to read its timestamps";
  ibv_cq_init_attr_ex init = {};
  init.cqe = 4;
  init.wc_flags =
      std::uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  ibv_cq_ex* extended = ibv_create_cq_ex(context, &init);
  ASSERT_NE(extended, nullptr);
  EXPECT_TRUE(device.cq_timed);
  ibv_poll_cq_attr attr = {};
  EXPECT_EQ(ibv_start_poll(extended, &attr), ENOENT);
  for (std::uint64_t id : {1, 2}) {
    device::CompletionEntry entry = {};
    entry.wr_id = id;
    entry.octets = 5;
    entry.qp_number = 9;
    entry.timestamp_ns = 1000 + id;
    entry.opcode = device::CompletionOpcode::Read;
    device.complete(extended->handle, entry);
  }
  ASSERT_EQ(ibv_start_poll(extended, &attr), 0);
  EXPECT_EQ(extended->wr_id, 1u);
  EXPECT_EQ(ibv_wc_read_byte_len(extended), 5u);
  EXPECT_EQ(ibv_wc_read_qp_num(extended), 9u);
  EXPECT_EQ(ibv_wc_read_completion_ts(extended), 1001u);
  EXPECT_EQ(ibv_wc_read_opcode(extended), IBV_WC_RDMA_READ);
  ASSERT_EQ(ibv_next_poll(extended), 0);
  EXPECT_EQ(extended->wr_id, 2u);
  EXPECT_EQ(ibv_next_poll(extended), ENOENT);
  ibv_end_poll(extended);
  EXPECT_EQ(ibv_start_poll(extended, &attr), ENOENT);
  attr.comp_mask = 1;
  EXPECT_EQ(ibv_start_poll(extended, &attr), EINVAL);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(extended)), 0);
}

TEST_F(FrontTest, ImmediateDataIsReadInNetworkOrder) {
  struct Row {
    std::uint8_t flags;
    ibv_wc_opcode opcode;
    unsigned wc_flags;
    std::uint32_t word;
  };
  constexpr unsigned kWith = device::kImmediate;
  const Row rows[] = {
      {0, IBV_WC_RECV, 0, 0x77},
      {device::kInvalidated, IBV_WC_RECV, IBV_WC_WITH_INV, 0x77},
      {kWith, IBV_WC_RECV, IBV_WC_WITH_IMM, htonl(0xa1b2c3d4)},
      {kWith | device::kOfWrite, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM, htonl(0xa1b2c3d4)},
  };
  for (const Row& row : rows) {
    device::CompletionEntry entry = {};
    entry.opcode = device::CompletionOpcode::Receive;
    entry.flags = row.flags;
    entry.invalidated_stag = 0x77;
    entry.immediate = 0xa1b2c3d401020304;
    device.complete(cq->handle, entry);
    ibv_wc wc;
    ASSERT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
    EXPECT_EQ(wc.opcode, row.opcode);
    EXPECT_EQ(wc.wc_flags, row.wc_flags);
    EXPECT_EQ(wc.imm_data, row.word);
  }
}

TEST_F(FrontTest, TheConnectionManagersLibraryFindsItsQPs) {
  create_qp();
  verbs::Runtime* runtime = weft_private_runtime();
  EXPECT_EQ(runtime->abi_version(), verbs::Runtime::kABIVersion);
  EXPECT_EQ(runtime->qp_number(qp), qp->qp_num);
  EXPECT_EQ(runtime->qp_number(nullptr), 0u);
  ibv_context foreign_context = {};
  ibv_qp foreign = {};
  EXPECT_EQ(runtime->qp_number(&foreign), 0u);
  foreign.context = &foreign_context;
  EXPECT_EQ(runtime->qp_number(&foreign), 0u);
}

TEST_F(FrontTest, AForkedChildMayOnlyDestroyWhatItInherited) {
  create_qp();
  const pid_t child = fork();
  if (child == 0) {
    ibv_send_wr wr = send(1, nullptr, 0);
    ibv_wc wc;
    ibv_qp_attr attr = {};
    int step = 0;
    const auto check = [&](bool holds) {
      ++step;
      if (!holds) _exit(step);
    };
    check(post(&wr) != 0);
    check(ibv_poll_cq(cq, 1, &wc) < 0);
    check(ibv_req_notify_cq(cq, 0) != 0);
    check(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EIO);
    check(ibv_alloc_pd(context) == nullptr && errno == EIO);
    check(ibv_reg_mr(pd, buffer, 1, 0) == nullptr && errno == EIO);
    check(ibv_destroy_qp(qp) == 0);
    check(ibv_dereg_mr(mr) == 0);
    check(ibv_destroy_cq(cq) == 0);
    check(ibv_destroy_comp_channel(channel) == 0);
    check(ibv_dealloc_pd(pd) == 0);
    ibv_context* own = ibv_open_device(context->device);
    check(own != nullptr);
    check(ibv_close_device(context) == 0);
    ibv_pd* own_pd = ibv_alloc_pd(own);
    check(own_pd != nullptr);
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the number of the step that did not hold";
  ibv_send_wr wr = send(1, nullptr, 0);
  EXPECT_EQ(post(&wr), 0) << "the parent is not touched";
  EXPECT_EQ(take().wr_id, 1u);
}

}  // namespace
}  // namespace weft::front

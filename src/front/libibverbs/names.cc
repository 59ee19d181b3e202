// Verbs enumerations as text and numbers: pure functions of their argument.
//
// The texts are part of what programs print and what scripts match on, so they are those that
// rdma-core prints. Every value outside its enumeration is "unknown": an enum argument comes from a
// C program and may hold anything.
#include <infiniband/verbs.h>

#include <array>
#include <cstddef>

#include "front/libibverbs/export.h"

// Since rdma-core 50: private to its own libraries, yet in its public header.
extern "C" const char* ibv_wr_opcode_str(ibv_wr_opcode opcode);

namespace {

constexpr const char* kUnknown = "unknown";

/// Row i is the text of value i.
constexpr std::array kNodeTypes{
    kUnknown,
    "InfiniBand channel adapter",
    "InfiniBand switch",
    "InfiniBand router",
    "iWARP NIC",
    "usNIC",
    "usNIC UDP",
    "unspecified",
};
static_assert(kNodeTypes.size() == IBV_NODE_UNSPECIFIED + 1);

constexpr std::array kPortStates{
    "no state change (NOP)", "down", "init", "armed", "active", "active defer",
};
static_assert(kPortStates.size() == IBV_PORT_ACTIVE_DEFER + 1);

constexpr std::array kEventTypes{
    "CQ error",                                 // IBV_EVENT_CQ_ERR
    "local work queue catastrophic error",      // IBV_EVENT_QP_FATAL
    "invalid request local work queue error",   // IBV_EVENT_QP_REQ_ERR
    "local access violation work queue error",  // IBV_EVENT_QP_ACCESS_ERR
    "communication established",                // IBV_EVENT_COMM_EST
    "send queue drained",                       // IBV_EVENT_SQ_DRAINED
    "path migrated",                            // IBV_EVENT_PATH_MIG
    "path migration request error",             // IBV_EVENT_PATH_MIG_ERR
    "local catastrophic error",                 // IBV_EVENT_DEVICE_FATAL
    "port active",                              // IBV_EVENT_PORT_ACTIVE
    "port error",                               // IBV_EVENT_PORT_ERR
    "LID change",                               // IBV_EVENT_LID_CHANGE
    "P_Key change",                             // IBV_EVENT_PKEY_CHANGE
    "SM change",                                // IBV_EVENT_SM_CHANGE
    "SRQ catastrophic error",                   // IBV_EVENT_SRQ_ERR
    "SRQ limit reached",                        // IBV_EVENT_SRQ_LIMIT_REACHED
    "last WQE reached",                         // IBV_EVENT_QP_LAST_WQE_REACHED
    "client reregistration",                    // IBV_EVENT_CLIENT_REREGISTER
    "GID table change",                         // IBV_EVENT_GID_CHANGE
    "WQ fatal",                                 // IBV_EVENT_WQ_FATAL
};
static_assert(kEventTypes.size() == IBV_EVENT_WQ_FATAL + 1);

constexpr std::array kCompletionStatuses{
    "success",                            // IBV_WC_SUCCESS
    "local length error",                 // IBV_WC_LOC_LEN_ERR
    "local QP operation error",           // IBV_WC_LOC_QP_OP_ERR
    "local EE context operation error",   // IBV_WC_LOC_EEC_OP_ERR
    "local protection error",             // IBV_WC_LOC_PROT_ERR
    "Work Request Flushed Error",         // IBV_WC_WR_FLUSH_ERR
    "memory management operation error",  // IBV_WC_MW_BIND_ERR
    "bad response error",                 // IBV_WC_BAD_RESP_ERR
    "local access error",                 // IBV_WC_LOC_ACCESS_ERR
    "remote invalid request error",       // IBV_WC_REM_INV_REQ_ERR
    "remote access error",                // IBV_WC_REM_ACCESS_ERR
    "remote operation error",             // IBV_WC_REM_OP_ERR
    "transport retry counter exceeded",   // IBV_WC_RETRY_EXC_ERR
    "RNR retry counter exceeded",         // IBV_WC_RNR_RETRY_EXC_ERR
    "local RDD violation error",          // IBV_WC_LOC_RDD_VIOL_ERR
    "remote invalid RD request",          // IBV_WC_REM_INV_RD_REQ_ERR
    "aborted error",                      // IBV_WC_REM_ABORT_ERR
    "invalid EE context number",          // IBV_WC_INV_EECN_ERR
    "invalid EE context state",           // IBV_WC_INV_EEC_STATE_ERR
    "fatal error",                        // IBV_WC_FATAL_ERR
    "response timeout error",             // IBV_WC_RESP_TIMEOUT_ERR
    "general error",                      // IBV_WC_GENERAL_ERR
    "TM error",                           // IBV_WC_TM_ERR
    "TM software rendezvous",             // IBV_WC_TM_RNDV_INCOMPLETE
};
static_assert(kCompletionStatuses.size() == IBV_WC_TM_RNDV_INCOMPLETE + 1);

/// IBV_WR_FLUSH, which the header of rdma-core 44 does not name, is 14.
constexpr std::array kWorkRequestOpcodes{
    "rdma-write",            // IBV_WR_RDMA_WRITE
    "rdma-write-with-imm",   // IBV_WR_RDMA_WRITE_WITH_IMM
    "send",                  // IBV_WR_SEND
    "send-with-imm",         // IBV_WR_SEND_WITH_IMM
    "rdma-read",             // IBV_WR_RDMA_READ
    "atomic-cmp-and-swp",    // IBV_WR_ATOMIC_CMP_AND_SWP
    "atomic-fetch-and-add",  // IBV_WR_ATOMIC_FETCH_AND_ADD
    "local-inv",             // IBV_WR_LOCAL_INV
    "bind-mw",               // IBV_WR_BIND_MW
    "send-with-inv",         // IBV_WR_SEND_WITH_INV
    "tso",                   // IBV_WR_TSO
    "driver1",               // IBV_WR_DRIVER1
    kUnknown,
    kUnknown,
    "flush",
    "atomic-write",  // IBV_WR_ATOMIC_WRITE
};
static_assert(kWorkRequestOpcodes.size() == IBV_WR_ATOMIC_WRITE + 1);

/// The row `value`, where a negative value wraps to a row that is not there.
template <std::size_t kRows>
const char* text(const std::array<const char*, kRows>& rows, int value) {
  const auto row = static_cast<std::size_t>(value);
  return row < kRows ? rows[row] : kUnknown;
}

/// One static rate. `multiple` counts 2.5 Gbit/s, and is 0 where the enumeration has none.
struct Rate {
  ibv_rate rate;
  int multiple;
  int mbps;
};

constexpr Rate kRates[] = {
    {IBV_RATE_2_5_GBPS, 1, 2500},       {IBV_RATE_5_GBPS, 2, 5000},
    {IBV_RATE_10_GBPS, 4, 10000},       {IBV_RATE_20_GBPS, 8, 20000},
    {IBV_RATE_30_GBPS, 12, 30000},      {IBV_RATE_40_GBPS, 16, 40000},
    {IBV_RATE_60_GBPS, 24, 60000},      {IBV_RATE_80_GBPS, 32, 80000},
    {IBV_RATE_120_GBPS, 48, 120000},    {IBV_RATE_14_GBPS, 0, 14062},
    {IBV_RATE_56_GBPS, 0, 56250},       {IBV_RATE_112_GBPS, 0, 112500},
    {IBV_RATE_168_GBPS, 0, 168750},     {IBV_RATE_25_GBPS, 0, 25781},
    {IBV_RATE_100_GBPS, 0, 103125},     {IBV_RATE_200_GBPS, 0, 206250},
    {IBV_RATE_300_GBPS, 0, 309375},     {IBV_RATE_28_GBPS, 11, 28125},
    {IBV_RATE_50_GBPS, 20, 53125},      {IBV_RATE_400_GBPS, 160, 425000},
    {IBV_RATE_600_GBPS, 240, 637500},   {IBV_RATE_800_GBPS, 320, 850000},
    {IBV_RATE_1200_GBPS, 480, 1275000},
};

}  // namespace

WEFT_EXPORT const char* ibv_node_type_str(ibv_node_type node_type) {
  return text(kNodeTypes, node_type);
}

WEFT_EXPORT const char* ibv_port_state_str(ibv_port_state port_state) {
  return text(kPortStates, port_state);
}

WEFT_EXPORT const char* ibv_event_type_str(ibv_event_type event) {
  return text(kEventTypes, static_cast<int>(event));
}

WEFT_EXPORT const char* ibv_wc_status_str(ibv_wc_status status) {
  return text(kCompletionStatuses, static_cast<int>(status));
}

WEFT_EXPORT const char* ibv_wr_opcode_str(ibv_wr_opcode opcode) {
  return text(kWorkRequestOpcodes, static_cast<int>(opcode));
}

WEFT_EXPORT int ibv_rate_to_mult(ibv_rate rate) {
  for (const Rate& row : kRates) {
    if (row.rate == rate && row.multiple != 0) return row.multiple;
  }
  return -1;
}

WEFT_EXPORT ibv_rate mult_to_ibv_rate(int mult) {
  for (const Rate& row : kRates) {
    if (row.multiple == mult && mult != 0) return row.rate;
  }
  return IBV_RATE_MAX;
}

WEFT_EXPORT int ibv_rate_to_mbps(ibv_rate rate) {
  for (const Rate& row : kRates) {
    if (row.rate == rate) return row.mbps;
  }
  return -1;
}

WEFT_EXPORT ibv_rate mbps_to_ibv_rate(int mbps) {
  for (const Rate& row : kRates) {
    if (row.mbps == mbps) return row.rate;
  }
  return IBV_RATE_MAX;
}

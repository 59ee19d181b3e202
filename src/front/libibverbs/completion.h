// A completion of the device in the words of the verbs.
#pragma once

#include <endian.h>
#include <infiniband/verbs.h>

#include "device/entries.h"

namespace weft::front {

inline ibv_wc_status to_wc_status(device::CompletionStatus status) {
  using Status = device::CompletionStatus;
  switch (status) {
    case Status::Success: return IBV_WC_SUCCESS;
    case Status::LocalLength: return IBV_WC_LOC_LEN_ERR;
    case Status::LocalQPOperation: return IBV_WC_LOC_QP_OP_ERR;
    case Status::LocalProtection: return IBV_WC_LOC_PROT_ERR;
    case Status::Flushed: return IBV_WC_WR_FLUSH_ERR;
    case Status::BadResponse: return IBV_WC_BAD_RESP_ERR;
    case Status::RemoteAccess: return IBV_WC_REM_ACCESS_ERR;
    case Status::RemoteOperation: return IBV_WC_REM_OP_ERR;
    case Status::RemoteInvalidRequest: return IBV_WC_REM_INV_REQ_ERR;
    case Status::RetryExceeded: return IBV_WC_RETRY_EXC_ERR;
    case Status::WindowBind: return IBV_WC_MW_BIND_ERR;
    case Status::Fatal: return IBV_WC_FATAL_ERR;
  }
  return IBV_WC_GENERAL_ERR;
}

inline ibv_wc_opcode to_wc_opcode(const device::CompletionEntry& entry) {
  using Opcode = device::CompletionOpcode;
  switch (entry.opcode) {
    case Opcode::Send: return IBV_WC_SEND;
    case Opcode::SendInvalidate: return IBV_WC_SEND;
    case Opcode::Write: return IBV_WC_RDMA_WRITE;
    case Opcode::Read: return IBV_WC_RDMA_READ;
    case Opcode::ReadInvalidate: return IBV_WC_RDMA_READ;
    case Opcode::LocalInvalidate: return IBV_WC_LOCAL_INV;
    case Opcode::WriteImmediate: return IBV_WC_RDMA_WRITE;
    case Opcode::SendImmediate: return IBV_WC_SEND;
    case Opcode::FetchAdd: return IBV_WC_FETCH_ADD;
    case Opcode::CompareSwap: return IBV_WC_COMP_SWAP;
    case Opcode::BindWindow: return IBV_WC_BIND_MW;
    case Opcode::Receive:
      return (entry.flags & device::kOfWrite) != 0 ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  }
  return IBV_WC_SEND;
}

/// The device's own status number, 0 for success: it tells apart what the verbs' codes join.
inline std::uint32_t to_vendor_error(device::CompletionStatus status) {
  return static_cast<std::uint32_t>(status);
}

inline unsigned to_wc_flags(const device::CompletionEntry& entry) {
  unsigned flags = 0;
  if ((entry.flags & device::kInvalidated) != 0) flags |= IBV_WC_WITH_INV;
  if ((entry.flags & device::kImmediate) != 0) flags |= IBV_WC_WITH_IMM;
  return flags;
}

/// What the verbs keep in one place: four octets of immediate data, or the STag invalidated.
inline std::uint32_t to_imm_data(const device::CompletionEntry& entry) {
  const bool immediate = (entry.flags & device::kImmediate) != 0;
  return immediate ? htobe32(static_cast<std::uint32_t>(entry.immediate >> 32))
                   : entry.invalidated_stag;
}

}  // namespace weft::front

// What a QP has open: work requests it took, Reads of both directions, the message that arrives.
#pragma once

#include <cstdint>

#include "base/octets.h"
#include "core/work.h"
#include "wire/atomic.h"
#include "wire/ddp.h"
#include "wire/numbers.h"
#include "wire/rdmap.h"

namespace weft::core {

/// A send queue entry's life. Waiting -> Sending -> Sent -> Done, or Failed from anywhere.
enum class WorkPhase : std::uint8_t {
  Waiting,  ///< taken; a fence or the ORD keeps it from starting
  Sending,  ///< some segments may have been produced, the last one was not
  Sent,     ///< every segment was produced: the transport or the peer has the next word
  Done,     ///< succeeded; waits for its turn to complete
  Failed,   ///< `status` says how
};

/// Is it one of these? For questions that are asked for every message: no branch for each opcode.
template <typename... Opcodes>
constexpr bool is_any_of(WorkOpcode opcode, Opcodes... of) {
  const std::uint32_t set = (0u | ... | (1u << static_cast<unsigned>(of)));
  return (set >> static_cast<unsigned>(opcode) & 1) != 0;
}

/// One send queue entry between take_send() and complete().
struct OpenWork {
  std::uint64_t id = 0;
  std::uint64_t remote_to = 0;
  std::uint64_t end_position = 0;  ///< stream octets produced up to its end; from Sent on
  Octets inline_data;
  SGE* sges = nullptr;             ///< our copy
  std::uint32_t sge_count = 0;
  std::uint32_t sge_index = 0;     ///< the gather cursor: the next octet to send
  std::uint32_t sge_offset = 0;
  std::uint32_t octets = 0;        ///< message length; of a Read: what it fetches
  std::uint32_t sent = 0;          ///< of which produced
  STag remote_stag;
  STag invalidate_stag;
  MSN msn;                         ///< of its (last) message on queue 0 or 1
  WorkOpcode opcode = WorkOpcode::Send;
  WorkPhase phase = WorkPhase::Waiting;
  WorkStatus status = WorkStatus::Success;
  bool signaled = true;
  bool solicited = false;
  bool read_fence = false;
  bool local_fence = false;
  bool immediate_next = false;     ///< the next segment is its Immediate Data message

  bool is_send() const {
    return is_any_of(opcode, WorkOpcode::Send, WorkOpcode::SendInvalidate,
                     WorkOpcode::SendImmediate);
  }
  bool is_write() const {
    return is_any_of(opcode, WorkOpcode::Write, WorkOpcode::WriteImmediate);
  }
  /// No message: takes effect at our end, before any later WR starts.
  bool is_local() const {
    return is_any_of(opcode, WorkOpcode::LocalInvalidate, WorkOpcode::BindWindow);
  }
  /// One message, of payload.
  bool is_plain() const {
    return is_any_of(opcode, WorkOpcode::Send, WorkOpcode::SendInvalidate, WorkOpcode::Write);
  }
  bool has_immediate() const {
    return is_any_of(opcode, WorkOpcode::WriteImmediate, WorkOpcode::SendImmediate);
  }
  /// Of RFC 7306, which not every peer knows.
  bool is_extension() const { return has_immediate() || is_atomic(); }
  bool is_atomic() const {
    return is_any_of(opcode, WorkOpcode::FetchAdd, WorkOpcode::CompareSwap);
  }
  /// A Read or an atomic: on queue 1, counted against the ORD, done when the answer is here.
  bool is_request() const {
    return is_any_of(opcode, WorkOpcode::Read, WorkOpcode::ReadInvalidate, WorkOpcode::FetchAdd,
                     WorkOpcode::CompareSwap);
  }
};

/// A Read or an atomic of ours that the peer has not answered to the end.
struct OpenRead {
  OpenWork* work = nullptr;    ///< null: the RTR or a probe, which are no work requests
  std::uint64_t position = 0;  ///< stream octets produced up to its request's end
  MSN msn;
  STag sink_stag;
  std::uint64_t sink_to = 0;
  std::uint32_t octets = 0;
  std::uint32_t received = 0;  ///< placed so far
  bool atomic = false;
};

/// A Read or an atomic of the peer's that we have not answered to the end.
struct InboundRead {
  wire::ReadRequest request;
  MSN msn;
  std::uint32_t sent = 0;  ///< produced so far
  bool atomic = false;
  wire::AtomicResponse answer;  ///< of an atomic, which has been performed

  bool is_of_nothing() const { return !atomic && request.octets == 0; }
};

/// The untagged message on queue 0 that is arriving, and the receive buffer it fills.
struct OpenReceive {
  bool open = false;
  std::uint8_t control = 0;  ///< RDMAP control octet of the first segment
  STag invalidate_stag;
  std::uint64_t id = 0;
  std::uint64_t capacity = 0;  ///< octets of all SGEs
  std::uint32_t received = 0;
  std::uint32_t sge_count = 0;
  std::uint32_t sge_index = 0;  ///< the scatter cursor
  std::uint32_t sge_offset = 0;
};

/// The segment that is being handled. Lives as long as the call that found it.
struct ArrivedSegment {
  wire::DDPHeader ddp;
  /// The header as it arrived, for a Terminate to quote: DDP, then that of a Read Request.
  std::uint8_t raw[wire::kDDPHeaderOctetsMax + wire::ReadRequest::kOctets];
  std::size_t raw_octets = 0;
  std::size_t ulpdu_octets = 0;
};

}  // namespace weft::core

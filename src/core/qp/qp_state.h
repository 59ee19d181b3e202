// The QP's states as data (verbs draft §6.2, RFC 5040 §6).
//
//            bind              FIN, close            LLP closed
//   Idle ------------> RTS -----------------> Closing ---------> Idle' (= Error here, see below)
//     |                 | \  error, Terminate    |
//     |                 |  `-----------------> Terminate --------> Error
//     `---- modify -----+------ LLP lost, modify Error ----------> Error
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace weft::core {

enum class QPState : std::uint8_t { Idle, RTS, Closing, Terminate, Error };

enum class QPEvent : std::uint8_t {
  BindStream,        ///< modify RTS: MPA startup is done
  CloseRequested,    ///< modify Closing: graceful close by the consumer
  TerminateRequested,///< modify Terminate: abortive close by the consumer
  ErrorRequested,    ///< modify Error
  IdleRequested,     ///< modify Idle
  PeerClosed,        ///< FIN, with nothing of ours open
  PeerClosedEarly,   ///< FIN while SQ or inbound reads are not empty ("Bad LLP Close")
  ProtocolError,     ///< an inbound or local processing error: we send a Terminate
  TerminateArrived,
  LLPClosed,         ///< both halves closed in order
  LLPLost,           ///< reset, time-out, transport error
  BadClose,          ///< in Closing: work found, a read active, or a segment arrives
};

struct QPTransition {
  QPState from;
  QPEvent event;
  QPState to;
};

/// Every allowed transition; a pair that is not here is an error of whoever raised the event.
std::span<const QPTransition> qp_transitions();
/// Looks the pair up. Empty: not allowed.
std::optional<QPState> next_state(QPState from, QPEvent event);

const char* name(QPState);
const char* name(QPEvent);

}  // namespace weft::core

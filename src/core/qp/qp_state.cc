// The QP state table.
#include "core/qp/qp_state.h"

namespace weft::core {
namespace {

using S = QPState;
using E = QPEvent;

// The draft returns from Closing to Idle by itself; here a stream that ended in any way leaves the
// QP in Error, where later posts are flushed, until the consumer asks for Idle: that is what both
// RDMA CM consumers and ibv_modify_qp expect. It also allows "modify Error" everywhere, again as
// ibv_modify_qp does; the draft refuses it in Closing and Terminate.
constexpr QPTransition kTransitions[] = {
    {S::Idle, E::BindStream, S::RTS},
    {S::Idle, E::ErrorRequested, S::Error},

    {S::RTS, E::CloseRequested, S::Closing},
    {S::RTS, E::TerminateRequested, S::Terminate},
    {S::RTS, E::ErrorRequested, S::Error},
    {S::RTS, E::PeerClosed, S::Closing},
    {S::RTS, E::PeerClosedEarly, S::Terminate},
    {S::RTS, E::ProtocolError, S::Terminate},
    {S::RTS, E::TerminateArrived, S::Terminate},
    {S::RTS, E::LLPLost, S::Error},

    {S::Closing, E::ErrorRequested, S::Error},
    {S::Closing, E::TerminateArrived, S::Terminate},
    {S::Closing, E::LLPClosed, S::Error},
    {S::Closing, E::LLPLost, S::Error},
    {S::Closing, E::BadClose, S::Error},

    {S::Terminate, E::ErrorRequested, S::Error},
    {S::Terminate, E::LLPClosed, S::Error},
    {S::Terminate, E::LLPLost, S::Error},

    {S::Error, E::ErrorRequested, S::Error},
    {S::Error, E::IdleRequested, S::Idle},
};

}  // namespace

std::span<const QPTransition> qp_transitions() { return kTransitions; }

std::optional<QPState> next_state(QPState from, QPEvent event) {
  for (const QPTransition& row : kTransitions) {
    if (row.from == from && row.event == event) return row.to;
  }
  return {};
}

const char* name(QPState state) {
  switch (state) {
    case S::Idle: return "Idle";
    case S::RTS: return "RTS";
    case S::Closing: return "Closing";
    case S::Terminate: return "Terminate";
    case S::Error: return "Error";
  }
  return "?";
}

const char* name(QPEvent event) {
  switch (event) {
    case E::BindStream: return "BindStream";
    case E::CloseRequested: return "CloseRequested";
    case E::TerminateRequested: return "TerminateRequested";
    case E::ErrorRequested: return "ErrorRequested";
    case E::IdleRequested: return "IdleRequested";
    case E::PeerClosed: return "PeerClosed";
    case E::PeerClosedEarly: return "PeerClosedEarly";
    case E::ProtocolError: return "ProtocolError";
    case E::TerminateArrived: return "TerminateArrived";
    case E::LLPClosed: return "LLPClosed";
    case E::LLPLost: return "LLPLost";
    case E::BadClose: return "BadClose";
  }
  return "?";
}

}  // namespace weft::core

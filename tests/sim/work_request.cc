// From an operation that was drawn to the work request that is posted.
#include "tests/sim/work_request.h"

namespace weft::sim {

using core::WorkOpcode;

std::vector<core::SGE> make_sges(const std::vector<Run>& runs, const Arena& own) {
  std::vector<core::SGE> sges;
  for (const Run& run : runs) {
    sges.push_back({own.to(run), run.octets, own.region(run.region).stag});
  }
  return sges;
}

core::SendWR make_wr(const Operation& operation, std::uint64_t id, const Arena& own,
                     const Arena& peer, std::vector<core::SGE>& sges,
                     core::WindowBinding& binding) {
  core::SendWR wr;
  wr.id = id;
  wr.opcode = operation.opcode;
  wr.signaled = operation.signaled;
  wr.solicited = operation.solicited;
  wr.read_fence = operation.read_fence;
  wr.local_fence = operation.local_fence;
  wr.immediate = operation.immediate;
  if (operation.is_atomic()) wr.operands = &operation.operands;
  sges = make_sges(operation.local, own);
  if (operation.remote) {
    wr.remote_stag = peer.region(operation.remote->region).stag;
    wr.remote_to = peer.to(*operation.remote);
  }
  if (operation.invalidates) {
    const Arena& where = operation.is_send() ? peer : own;
    wr.invalidate_stag = where.region(*operation.invalidates).stag;
  }
  if (operation.window && operation.illegal != Illegal::WindowAsLocal) {
    const STag stag = (operation.is_local() ? own : peer).window(*operation.window).bound;
    wr.invalidate_stag = stag;
    if (operation.remote) {
      wr.remote_stag = stag;
      wr.remote_to = peer.to(*operation.remote, *operation.window);
    }
  }
  if (operation.opcode == WorkOpcode::BindWindow) {
    binding = own.binding(*operation.window);
    if (operation.unbinds) binding.octets = 0;
    wr.binding = &binding;
  }
  switch (operation.illegal) {
    case Illegal::WindowReadOldKey:
      wr.remote_stag = peer.window(*operation.window).allocated;
      break;
    case Illegal::WindowBindBeyondEnd:
      binding.octets = own.region(own.window(*operation.window).region).octets;
      break;
    case Illegal::WindowAsLocal:
      sges[0].stag = own.window(*operation.window).bound;
      break;
    case Illegal::WriteBadSTag:
    case Illegal::ReadBadSTag:
    case Illegal::AtomicBadSTag:
      wr.remote_stag = operation.wrong_stag;
      break;
    case Illegal::LocalBadSTag:
      sges[0].stag = operation.wrong_stag;
      break;
    case Illegal::InvalidateBadSTag:
    case Illegal::LocalInvalidateBadSTag:
      wr.invalidate_stag = operation.wrong_stag;
      break;
    default:
      break;
  }
  return wr;
}

const char* name(WorkOpcode opcode) {
  switch (opcode) {
    case WorkOpcode::Send:
      return "Send";
    case WorkOpcode::SendInvalidate:
      return "Send with Invalidate";
    case WorkOpcode::Write:
      return "Write";
    case WorkOpcode::Read:
      return "Read";
    case WorkOpcode::ReadInvalidate:
      return "Read with Invalidate";
    case WorkOpcode::LocalInvalidate:
      return "Local Invalidate";
    case WorkOpcode::WriteImmediate:
      return "Write with Immediate";
    case WorkOpcode::SendImmediate:
      return "Send with Immediate";
    case WorkOpcode::FetchAdd:
      return "FetchAdd";
    case WorkOpcode::CompareSwap:
      return "CmpSwap";
    case WorkOpcode::BindWindow:
      return "Bind Window";
    case WorkOpcode::Receive:
      return "Receive";
  }
  return "?";
}

}  // namespace weft::sim

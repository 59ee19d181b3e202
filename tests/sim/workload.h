// What the two programs do: work requests whose outcome is known beforehand, and when they are
// posted.
#pragma once

#include <optional>
#include <vector>

#include "core/work.h"
#include "tests/sim/arena.h"
#include "tests/sim/settings.h"

namespace weft::sim {

/// One send queue entry.
struct Operation {
  core::WorkOpcode opcode = core::WorkOpcode::Send;
  bool signaled = true;
  bool solicited = false;
  bool read_fence = false;
  bool local_fence = false;
  std::vector<Run> local;  ///< gather list; of a Read: the sink
  Bytes inline_data;
  std::optional<Run> remote;               ///< sink, source or target; in the peer's arena
  wire::Immediate immediate;
  wire::AtomicOperands operands;
  std::optional<std::size_t> invalidates;  ///< region: the peer's (Send), or our own
  /// BindWindow, LocalInvalidate: ours; else the peer's, through which `remote` is meant, or which
  /// a Send with Invalidate closes.
  std::optional<std::size_t> window;
  bool unbinds = false;  ///< a BindWindow of length 0
  /// Posted only when that operation of the peer's completed, or its message was received here.
  struct After {
    std::size_t operation = 0;
    bool received = false;
  };
  std::optional<After> after;
  std::uint32_t octets = 0;
  Illegal illegal = Illegal::None;
  STag wrong_stag;  ///< in place of the right one, if `illegal` is about that
  Duration at{};    ///< posted then, counted from the start

  bool is_local() const {
    return opcode == core::WorkOpcode::LocalInvalidate || opcode == core::WorkOpcode::BindWindow;
  }
  bool is_send() const {
    return opcode == core::WorkOpcode::Send || opcode == core::WorkOpcode::SendInvalidate ||
           opcode == core::WorkOpcode::SendImmediate;
  }
  bool is_write() const {
    return opcode == core::WorkOpcode::Write || opcode == core::WorkOpcode::WriteImmediate;
  }
  bool is_atomic() const {
    return opcode == core::WorkOpcode::FetchAdd || opcode == core::WorkOpcode::CompareSwap;
  }
  /// Waits for an answer: a Read or an atomic.
  bool is_request() const {
    return is_atomic() || opcode == core::WorkOpcode::Read ||
           opcode == core::WorkOpcode::ReadInvalidate;
  }
  /// What the peer has to post for it.
  bool takes_receive() const {
    return is_send() || opcode == core::WorkOpcode::WriteImmediate;
  }
};

struct Receive {
  std::vector<Run> sges;
  Duration at{};
};

struct Deregistration {
  std::size_t region = 0;
  Duration at{};
};

/// What one end does in one round. Operation i has the WR id i, receive i has kReceiveID + i.
struct Workload {
  static constexpr std::uint64_t kReceiveID = 1'000'000;

  std::vector<Operation> operations;
  std::vector<Receive> receives;
  std::vector<Deregistration> deregistrations;
};

/// Draws the work of both ends and the regions it needs.
std::array<Workload, 2> draw_work(const Settings&, Random&, std::array<Arena*, 2> arenas);

}  // namespace weft::sim

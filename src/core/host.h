// What the core asks of whoever runs it: moving octets, CRCs, work requests in, completions out.
//
// The core decides *where* octets go; the host moves them. It is a port and not a queue of outputs
// because no pointer of the core's into arrived octets may outlive the call that brought them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/octets.h"
#include "core/atomic.h"
#include "core/work.h"

namespace weft::core {

/// Who reads next what was staged: this core, for a transport that copies it at once, or another
/// one, in its place.
enum class ReadBy : std::uint8_t { ThisCore, AnotherCore };

/// Moves octets between staging and registered memory, and computes CRCs. One per engine.
/// Addresses come out of MemoryTable::check, so they were granted; the pages may nevertheless have
/// been unmapped by their owner, which `false` reports. No call blocks.
class Mover {
 public:
  /// CRC32C register after `data`, which is the engine's own memory.
  virtual std::uint32_t crc_extend(std::uint32_t state, Octets data) = 0;
  /// The same over registered memory.
  virtual bool crc_registered(std::uint32_t* state, const std::uint8_t* source,
                              std::size_t octets) = 0;
  /// Registered memory to staging; with `state`, extended over the octets as they were stored.
  virtual bool fetch(std::uint8_t* target, const std::uint8_t* source, std::size_t octets,
                     std::uint32_t* state, ReadBy) = 0;
  /// Arrived octets to registered memory; with `state`, extended over them on the way.
  virtual bool place(std::uint8_t* target, Octets source, std::uint32_t* state) = 0;
  /// Changes the number of 64 bits at `target`, which is aligned to 8 octets and in this machine's
  /// order, indivisibly against every other update; `*original` is what stood there before.
  virtual bool update(std::uint8_t* target, const AtomicChange& change,
                      std::uint64_t* original) = 0;

 protected:
  ~Mover() = default;
};

/// The work queues of one QP. All calls come from inside a call into that QP.
class WorkQueues {
 public:
  /// The oldest send queue entry not yet taken; `wr` is fresh. The spans in `wr` stay valid until
  /// the next call into this QP, except inline_data: until complete() reports this WR. False: the
  /// queue is empty.
  virtual bool take_send(SendWR& wr) = 0;
  /// Is there a send queue entry not yet taken?
  virtual bool send_pending() const = 0;
  /// The next receive buffer, from the RQ or the shared RQ. The SGE span stays valid until the
  /// next call into this QP. False: none is posted.
  virtual bool take_receive(ReceiveWR& wr) = 0;
  /// Like take_receive, but only from an RQ of its own: a shared RQ is not drained by one QP's end.
  virtual bool take_receive_to_flush(ReceiveWR& wr) = 0;
  /// A WR ended. Called once for each WR taken, per queue in posting order; also for unsignalled
  /// successes (completion.signaled is false: free the slot, write no CQ entry).
  virtual void complete(const Completion&) = 0;
  /// The CRC32C register after these octets of an RDMA Write that lie in registered memory, from 0,
  /// if somebody has summed them already. `segment`: the Write is cut into so many at most.
  virtual std::optional<std::uint32_t> sum_of(const std::uint8_t* /*place*/,
                                              std::uint32_t /*octets*/, std::uint32_t /*segment*/) {
    return {};
  }
  /// Part of an inbound RDMA Write with a CRC through `stag`, which belongs at `target`. True: the
  /// host has it, and what the consumer is told of from now on it reads as if it were there.
  virtual bool keep_write(STag /*stag*/, std::uint8_t* /*target*/, Octets /*run*/) { return false; }
  /// The last segment of an inbound RDMA Write was placed, `octets` long. Nothing is delivered
  /// (RDM-05); for hosts whose consumers sleep while peers signal them by writing to memory.
  virtual void handle_write_placed(std::size_t /*octets*/) {}

 protected:
  ~WorkQueues() = default;
};

}  // namespace weft::core

// One QP with everything a test needs around it. Hosted, for tests only.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "core/qp/qp.h"
#include "core/qp/testing/fakes.h"
#include "tests/support/hex.h"

namespace weft::core::testing {

/// One end of a stream.
class End {
 public:
  static constexpr std::uint32_t kAll =
      kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;

  explicit End(QPConfig config = {});
  ~End();

  static StreamParameters stream(Role role);
  End& bind(Role role = Role::Initiator, std::size_t emss = 1460) {
    return bind(stream(role), emss);
  }
  End& bind(const StreamParameters& parameters, std::size_t emss = 1460);

  Region region(std::size_t octets, std::uint32_t access = kAll, PD pd = kPD,
                std::uint64_t base_to = 0);
  /// A region that only this end's stream reaches, and its peer may invalidate.
  Region tied_region(std::size_t octets, StreamId stream = kStream);

  // Work. Each returns the WR's id.
  std::uint64_t post(SendWR wr, std::vector<SGE> sges = {}, Bytes inline_data = {});
  std::uint64_t send(std::vector<SGE> sges);
  std::uint64_t send(std::string_view text);
  std::uint64_t write(std::vector<SGE> sges, STag stag, std::uint64_t to);
  std::uint64_t write(std::string_view text, STag stag, std::uint64_t to);
  std::uint64_t read(std::vector<SGE> sink, STag stag, std::uint64_t to);
  std::uint64_t write_immediate(std::string_view text, STag stag, std::uint64_t to,
                                std::uint64_t value, bool solicited = false);
  std::uint64_t send_immediate(std::string_view text, std::uint64_t value, bool solicited = false);
  std::uint64_t atomic(WorkOpcode opcode, SGE sink, STag stag, std::uint64_t to,
                       wire::AtomicOperands operands, bool read_fence = false);
  std::uint64_t fetch_add(SGE sink, STag stag, std::uint64_t to, std::uint64_t add);
  std::uint64_t compare_swap(SGE sink, STag stag, std::uint64_t to, std::uint64_t compare,
                             std::uint64_t swap);
  std::uint64_t receive(std::vector<SGE> sges = {});

  /// What one batch holds, as octets; the QP hears that `accept` of them were taken (all of them).
  Bytes transmit(bool accept = true, std::size_t octets_max = 65536,
                 std::size_t octets_bound = SIZE_MAX);
  /// Everything that may go now.
  Bytes transmit_all();
  /// Octets from the peer: as many calls as it takes. What is left over stays for the next time.
  Received deliver(const Bytes& octets);

  void drain();
  bool noticed(QPNotice::Kind kind) const;

 private:
  static constexpr std::uint32_t kRegionsMax = 64;
  AlignedStorage table_storage_{MemoryTable::storage_octets(kRegionsMax)};
  std::unique_ptr<AlignedStorage> qp_storage_;
  Bytes staging_;
  std::vector<Piece> pieces_;
  std::uint64_t random_ = 1000;
  std::uint64_t last_id_ = 0;

 public:
  Instant now{1'000'000'000};
  MemoryTable table{table_storage_.octets(), kRegionsMax};
  PlainMover mover;
  FakeQueues queues;
  std::unique_ptr<QP> qp;
  Bytes arrived;
  LLPAction action = LLPAction::None;  ///< the last one given
  std::vector<QPNotice> notices;
};

/// The statuses of completions, in order.
std::vector<WorkStatus> statuses(const std::deque<Completion>& completions);
std::vector<std::uint64_t> ids(const std::deque<Completion>& completions);

}  // namespace weft::core::testing

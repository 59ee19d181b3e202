// One QP with everything a test needs around it. Hosted, for tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
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

  explicit End(QPConfig config = {}) {
    if (config.pd.value == 0) config.pd = kPD;
    if (config.receive_pd.value == 0) config.receive_pd = config.pd;
    if (config.stream.value == 0) config.stream = kStream;
    qp_storage_ = std::make_unique<AlignedStorage>(QP::storage_octets(config));
    qp = std::make_unique<QP>(config, queues, mover, table, qp_storage_->octets());
  }

  static StreamParameters stream(Role role) {
    StreamParameters parameters;
    parameters.role = role;
    parameters.ird = parameters.ord = 8;
    return parameters;
  }
  End& bind(Role role = Role::Initiator, std::size_t emss = 1460) {
    return bind(stream(role), emss);
  }
  End& bind(const StreamParameters& parameters, std::size_t emss = 1460) {
    EXPECT_TRUE(qp->bind_stream(parameters, emss, now).ok());
    drain();
    return *this;
  }

  Region region(std::size_t octets, std::uint32_t access = kAll, PD pd = kPD,
                std::uint64_t base_to = 0) {
    Region made{std::make_unique<Bytes>(octets), {}, base_to};
    if (base_to == 0) made.to = reinterpret_cast<std::uintptr_t>(made.data());
    const auto stag = table.register_region(
        {.pd = pd, .access = access, .base_to = made.to, .address = made.data(), .octets = octets},
        ++random_);
    EXPECT_TRUE(stag.ok());
    made.stag = *stag;
    return made;
  }

  /// A region that only this end's stream reaches, and its peer may invalidate.
  Region tied_region(std::size_t octets, StreamId stream = kStream) {
    Region made = region(octets);
    RegionAttributes attributes = *table.find(made.stag);
    attributes.stream = stream;
    EXPECT_TRUE(table.reregister(made.stag, attributes).ok());
    return made;
  }

  // Work. Each returns the WR's id.
  std::uint64_t post(SendWR wr, std::vector<SGE> sges = {}, Bytes inline_data = {}) {
    wr.id = ++last_id_;
    queues.sends.push_back({wr, std::move(sges), std::move(inline_data)});
    return wr.id;
  }
  std::uint64_t send(std::vector<SGE> sges) { return post({.opcode = WorkOpcode::Send}, sges); }
  std::uint64_t send(std::string_view text) {
    return post({.opcode = WorkOpcode::Send}, {}, bytes(text));
  }
  std::uint64_t write(std::vector<SGE> sges, STag stag, std::uint64_t to) {
    return post({.opcode = WorkOpcode::Write, .remote_stag = stag, .remote_to = to}, sges);
  }
  std::uint64_t write(std::string_view text, STag stag, std::uint64_t to) {
    return post({.opcode = WorkOpcode::Write, .remote_stag = stag, .remote_to = to}, {},
                bytes(text));
  }
  std::uint64_t read(std::vector<SGE> sink, STag stag, std::uint64_t to) {
    return post({.opcode = WorkOpcode::Read, .remote_stag = stag, .remote_to = to}, sink);
  }
  std::uint64_t write_immediate(std::string_view text, STag stag, std::uint64_t to,
                                std::uint64_t value, bool solicited = false) {
    return post({.opcode = WorkOpcode::WriteImmediate, .solicited = solicited, .remote_stag = stag,
                 .remote_to = to, .immediate = {value}}, {}, bytes(text));
  }
  std::uint64_t send_immediate(std::string_view text, std::uint64_t value, bool solicited = false) {
    return post({.opcode = WorkOpcode::SendImmediate, .solicited = solicited,
                 .immediate = {value}}, {}, bytes(text));
  }
  std::uint64_t atomic(WorkOpcode opcode, SGE sink, STag stag, std::uint64_t to,
                       wire::AtomicOperands operands, bool read_fence = false) {
    post({.opcode = opcode, .read_fence = read_fence, .remote_stag = stag, .remote_to = to},
         {sink});
    queues.sends.back().operands = operands;
    return last_id_;
  }
  std::uint64_t fetch_add(SGE sink, STag stag, std::uint64_t to, std::uint64_t add) {
    return atomic(WorkOpcode::FetchAdd, sink, stag, to, {.data = add});
  }
  std::uint64_t compare_swap(SGE sink, STag stag, std::uint64_t to, std::uint64_t compare,
                             std::uint64_t swap) {
    return atomic(WorkOpcode::CompareSwap, sink, stag, to,
                  {.data = swap, .data_mask = ~std::uint64_t{0}, .compare = compare});
  }
  std::uint64_t receive(std::vector<SGE> sges = {}) {
    queues.receives.push_back({++last_id_, std::move(sges)});
    return last_id_;
  }

  /// What one batch holds, as octets; the QP hears that `accept` of them were taken (all of them).
  Bytes transmit(bool accept = true, std::size_t octets_max = 65536,
                 std::size_t octets_bound = SIZE_MAX) {
    staging_.resize(1 << 17);
    pieces_.resize(256);
    TransmitBatch batch(staging_, pieces_, octets_max, octets_bound);
    qp->poll_transmit(batch, now);
    Bytes out;
    for (const Piece& piece : batch.pieces()) {
      out.insert(out.end(), piece.data, piece.data + piece.octets);
    }
    EXPECT_EQ(out.size(), batch.octets());
    if (accept && !out.empty()) qp->handle_sent(out.size(), now);
    drain();
    return out;
  }
  /// Everything that may go now.
  Bytes transmit_all() {
    Bytes all;
    for (Bytes part = transmit(); !part.empty(); part = transmit()) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  /// Octets from the peer: as many calls as it takes. What is left over stays for the next time.
  Received deliver(const Bytes& octets) {
    arrived.insert(arrived.end(), octets.begin(), octets.end());
    Received result;
    while (true) {
      const Octets part(arrived);
      result = qp->handle_octets({std::span(&part, 1)}, now);
      EXPECT_LE(result.consumed, arrived.size());
      arrived.erase(arrived.begin(),
                    arrived.begin() + static_cast<std::ptrdiff_t>(result.consumed));
      drain();
      if (result.consumed == 0 || result.wanted != 0 || result.held_back || arrived.empty()) break;
    }
    return result;
  }

  void drain() {
    if (const LLPAction given = qp->poll_llp_action(); given != LLPAction::None) action = given;
    while (const auto notice = qp->poll_notice()) notices.push_back(*notice);
  }
  bool noticed(QPNotice::Kind kind) const {
    return std::any_of(notices.begin(), notices.end(),
                       [kind](const QPNotice& notice) { return notice.kind == kind; });
  }

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
inline std::vector<WorkStatus> statuses(const std::deque<Completion>& completions) {
  std::vector<WorkStatus> out;
  for (const Completion& completion : completions) out.push_back(completion.status);
  return out;
}
inline std::vector<std::uint64_t> ids(const std::deque<Completion>& completions) {
  std::vector<std::uint64_t> out;
  for (const Completion& completion : completions) out.push_back(completion.id);
  return out;
}

}  // namespace weft::core::testing

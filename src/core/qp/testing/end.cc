// What one end does in a test.
#include "core/qp/testing/end.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

namespace weft::core::testing {

End::End(QPConfig config) {
  if (config.pd.value == 0) config.pd = kPD;
  if (config.receive_pd.value == 0) config.receive_pd = config.pd;
  if (config.stream.value == 0) config.stream = kStream;
  qp_storage_ = std::make_unique<AlignedStorage>(QP::storage_octets(config));
  qp = std::make_unique<QP>(config, queues, mover, table, qp_storage_->octets());
}

End::~End() = default;

StreamParameters End::stream(Role role) {
  StreamParameters parameters;
  parameters.role = role;
  parameters.ird = parameters.ord = 8;
  return parameters;
}

End& End::bind(const StreamParameters& parameters, std::size_t emss) {
  EXPECT_TRUE(qp->bind_stream(parameters, emss, now).ok());
  drain();
  return *this;
}

Region End::region(std::size_t octets, std::uint32_t access, PD pd, std::uint64_t base_to) {
  Region made{std::make_unique<Bytes>(octets), {}, base_to};
  if (base_to == 0) made.to = reinterpret_cast<std::uintptr_t>(made.data());
  const auto stag = table.register_region(
      {.pd = pd, .access = access, .base_to = made.to, .address = made.data(), .octets = octets},
      ++random_);
  EXPECT_TRUE(stag.ok());
  made.stag = *stag;
  return made;
}

Region End::tied_region(std::size_t octets, StreamId stream) {
  Region made = region(octets);
  RegionAttributes attributes = *table.find(made.stag);
  attributes.stream = stream;
  EXPECT_TRUE(table.reregister(made.stag, attributes).ok());
  return made;
}

std::uint64_t End::post(SendWR wr, std::vector<SGE> sges, Bytes inline_data) {
  wr.id = ++last_id_;
  queues.sends.push_back({wr, std::move(sges), std::move(inline_data)});
  return wr.id;
}

std::uint64_t End::send(std::vector<SGE> sges) {
  return post({.opcode = WorkOpcode::Send}, std::move(sges));
}

std::uint64_t End::send(std::string_view text) {
  return post({.opcode = WorkOpcode::Send}, {}, bytes(text));
}

std::uint64_t End::write(std::vector<SGE> sges, STag stag, std::uint64_t to) {
  return post({.opcode = WorkOpcode::Write, .remote_stag = stag, .remote_to = to},
              std::move(sges));
}

std::uint64_t End::write(std::string_view text, STag stag, std::uint64_t to) {
  return post({.opcode = WorkOpcode::Write, .remote_stag = stag, .remote_to = to}, {},
              bytes(text));
}

std::uint64_t End::read(std::vector<SGE> sink, STag stag, std::uint64_t to) {
  return post({.opcode = WorkOpcode::Read, .remote_stag = stag, .remote_to = to},
              std::move(sink));
}

std::uint64_t End::write_immediate(std::string_view text, STag stag, std::uint64_t to,
                                   std::uint64_t value, bool solicited) {
  return post({.opcode = WorkOpcode::WriteImmediate, .solicited = solicited, .remote_stag = stag,
               .remote_to = to, .immediate = {value}}, {}, bytes(text));
}

std::uint64_t End::send_immediate(std::string_view text, std::uint64_t value, bool solicited) {
  return post({.opcode = WorkOpcode::SendImmediate, .solicited = solicited, .immediate = {value}},
              {}, bytes(text));
}

std::uint64_t End::atomic(WorkOpcode opcode, SGE sink, STag stag, std::uint64_t to,
                          wire::AtomicOperands operands, bool read_fence) {
  post({.opcode = opcode, .read_fence = read_fence, .remote_stag = stag, .remote_to = to}, {sink});
  queues.sends.back().operands = operands;
  return last_id_;
}

std::uint64_t End::fetch_add(SGE sink, STag stag, std::uint64_t to, std::uint64_t add) {
  return atomic(WorkOpcode::FetchAdd, sink, stag, to, {.data = add});
}

std::uint64_t End::compare_swap(SGE sink, STag stag, std::uint64_t to, std::uint64_t compare,
                                std::uint64_t swap) {
  return atomic(WorkOpcode::CompareSwap, sink, stag, to,
                {.data = swap, .data_mask = ~std::uint64_t{0}, .compare = compare});
}

std::uint64_t End::receive(std::vector<SGE> sges) {
  queues.receives.push_back({++last_id_, std::move(sges)});
  return last_id_;
}

Bytes End::transmit(bool accept, std::size_t octets_max, std::size_t octets_bound) {
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

Bytes End::transmit_all() {
  Bytes all;
  for (Bytes part = transmit(); !part.empty(); part = transmit()) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Received End::deliver(const Bytes& octets) {
  arrived.insert(arrived.end(), octets.begin(), octets.end());
  Received result;
  while (true) {
    const Octets part(arrived);
    result = qp->handle_octets({std::span(&part, 1)}, now);
    EXPECT_LE(result.consumed, arrived.size());
    arrived.erase(arrived.begin(), arrived.begin() + static_cast<std::ptrdiff_t>(result.consumed));
    drain();
    if (result.consumed == 0 || result.wanted != 0 || result.held_back || arrived.empty()) break;
  }
  return result;
}

void End::drain() {
  if (const LLPAction given = qp->poll_llp_action(); given != LLPAction::None) action = given;
  while (const auto notice = qp->poll_notice()) notices.push_back(*notice);
}

bool End::noticed(QPNotice::Kind kind) const {
  return std::any_of(notices.begin(), notices.end(),
                     [kind](const QPNotice& notice) { return notice.kind == kind; });
}

std::vector<WorkStatus> statuses(const std::deque<Completion>& completions) {
  std::vector<WorkStatus> out;
  for (const Completion& completion : completions) out.push_back(completion.status);
  return out;
}

std::vector<std::uint64_t> ids(const std::deque<Completion>& completions) {
  std::vector<std::uint64_t> out;
  for (const Completion& completion : completions) out.push_back(completion.id);
  return out;
}

}  // namespace weft::core::testing

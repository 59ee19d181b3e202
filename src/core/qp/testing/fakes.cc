// Memory and queues as a QP sees them, without any host.
#include "core/qp/testing/fakes.h"

#include <cstring>
#include <utility>

#include "base/crc32c.h"

namespace weft::core::testing {

Bytes bytes(std::string_view text) { return {text.begin(), text.end()}; }

Bytes pattern(std::size_t octets, std::uint8_t seed) {
  Bytes out(octets);
  for (std::size_t i = 0; i < octets; ++i) {
    out[i] = static_cast<std::uint8_t>(seed + i * 7 + i / 251);
  }
  return out;
}

std::uint32_t PlainMover::crc_extend(std::uint32_t state, Octets data) {
  return crc32c_extend_portable(state, data);
}

bool PlainMover::crc_registered(std::uint32_t* state, const std::uint8_t* source,
                                std::size_t octets) {
  if (gone(source, octets)) return false;
  *state = crc32c_extend_portable(*state, Octets(source, octets));
  return true;
}

bool PlainMover::fetch(std::uint8_t* target, const std::uint8_t* source, std::size_t octets,
                       std::uint32_t* state, ReadBy) {
  ++fetches;
  if (gone(source, octets)) return false;
  std::memcpy(target, source, octets);
  if (state) *state = crc32c_extend_portable(*state, Octets(target, octets));
  return true;
}

bool PlainMover::place(std::uint8_t* target, Octets source, std::uint32_t* state) {
  if (gone(target, source.size())) return false;
  std::memcpy(target, source.data(), source.size());
  if (state) *state = crc32c_extend_portable(*state, source);
  summed_placements += state != nullptr;
  ++placements;
  return true;
}

bool PlainMover::update(std::uint8_t* target, const AtomicChange& change,
                        std::uint64_t* original) {
  if (gone(target, sizeof *original)) return false;
  std::memcpy(original, target, sizeof *original);
  const std::uint64_t changed = change.applied_to(*original);
  std::memcpy(target, &changed, sizeof changed);
  return true;
}

bool PlainMover::gone(const std::uint8_t* p, std::size_t octets) const {
  return octets > 0 && p < gone_.data() + gone_.size() && gone_.data() < p + octets;
}

FakeQueues::FakeQueues() = default;
FakeQueues::~FakeQueues() = default;

bool FakeQueues::take_send(SendWR& wr) {
  lent_send_ = {};
  if (sends.empty()) return false;
  lent_send_ = sends.front().sges;
  if (!sends.front().inline_data.empty()) {
    open_inline_.push_back(std::move(sends.front().inline_data));
    sends.front().wr.inline_data = open_inline_.back();
  }
  lent_operands_ = sends.front().operands.value_or(wire::AtomicOperands{});
  if (sends.front().operands) sends.front().wr.operands = &lent_operands_;
  lent_binding_ = sends.front().binding.value_or(WindowBinding{});
  if (sends.front().binding) sends.front().wr.binding = &lent_binding_;
  wr = sends.front().wr;
  wr.sges = lent_send_;
  sends.pop_front();
  ++sends_taken;
  return true;
}

bool FakeQueues::keep_write(STag stag, std::uint8_t* target, Octets run) {
  if (stag != keeps) return false;
  kept.push_back({target, Bytes(run.begin(), run.end())});
  return true;
}

bool FakeQueues::take_receive(ReceiveWR& wr) {
  if (receives.empty()) return false;
  lent_receive_ = receives.front().sges;
  wr = {receives.front().id, lent_receive_};
  receives.pop_front();
  ++receives_taken;
  return true;
}

void FakeQueues::complete(const Completion& completion) {
  (completion.opcode == WorkOpcode::Receive ? received : sent).push_back(completion);
  all.push_back(completion);
}

}  // namespace weft::core::testing

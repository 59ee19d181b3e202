// What stands around a QP in tests and fuzzers: memory, queues. Hosted, for tests only.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/crc32c.h"
#include "core/host.h"
#include "core/memory/memory_table.h"

namespace weft::core::testing {

using Bytes = std::vector<std::uint8_t>;
inline constexpr PD kPD{7};
inline constexpr PD kOtherPD{8};
inline constexpr StreamId kStream{3};
inline constexpr StreamId kOtherStream{4};

inline Bytes bytes(std::string_view text) { return {text.begin(), text.end()}; }
/// Octets 0, 1, 2 ... of a pattern that does not repeat within a segment.
inline Bytes pattern(std::size_t octets, std::uint8_t seed = 1) {
  Bytes out(octets);
  for (std::size_t i = 0; i < octets; ++i) {
    out[i] = static_cast<std::uint8_t>(seed + i * 7 + i / 251);
  }
  return out;
}

/// Copies with memcpy; one range of addresses may be "unmapped".
class PlainMover final : public Mover {
 public:
  void unmap(const std::uint8_t* begin, std::size_t octets) { gone_ = Octets(begin, octets); }

  std::uint32_t crc_extend(std::uint32_t state, Octets data) override {
    return crc32c_extend_portable(state, data);
  }
  bool crc_registered(std::uint32_t* state, const std::uint8_t* source,
                      std::size_t octets) override {
    if (gone(source, octets)) return false;
    *state = crc32c_extend_portable(*state, Octets(source, octets));
    return true;
  }
  bool fetch(std::uint8_t* target, const std::uint8_t* source, std::size_t octets,
             std::uint32_t* state, ReadBy) override {
    ++fetches;
    if (gone(source, octets)) return false;
    std::memcpy(target, source, octets);
    if (state) *state = crc32c_extend_portable(*state, Octets(target, octets));
    return true;
  }
  bool place(std::uint8_t* target, Octets source, std::uint32_t* state) override {
    if (gone(target, source.size())) return false;
    std::memcpy(target, source.data(), source.size());
    if (state) *state = crc32c_extend_portable(*state, source);
    summed_placements += state != nullptr;
    ++placements;
    return true;
  }
  bool update(std::uint8_t* target, const AtomicChange& change,
              std::uint64_t* original) override {
    if (gone(target, sizeof *original)) return false;
    std::memcpy(original, target, sizeof *original);
    const std::uint64_t changed = change.applied_to(*original);
    std::memcpy(target, &changed, sizeof changed);
    return true;
  }

  std::size_t placements = 0, summed_placements = 0, fetches = 0;

 private:
  bool gone(const std::uint8_t* p, std::size_t octets) const {
    return octets > 0 && p < gone_.data() + gone_.size() && gone_.data() < p + octets;
  }
  Octets gone_;
};

/// Work queues as deques; what they hand out dies at the next call, as a ring's entries may.
class FakeQueues final : public WorkQueues {
 public:
  struct PostedSend {
    SendWR wr;
    std::vector<SGE> sges;
    Bytes inline_data;
    std::optional<wire::AtomicOperands> operands = {};
    std::optional<WindowBinding> binding = {};
  };
  struct PostedReceive {
    std::uint64_t id;
    std::vector<SGE> sges;
  };

  bool take_send(SendWR& wr) override {
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
  bool send_pending() const override { return !sends.empty(); }
  bool keep_write(STag stag, std::uint8_t* target, Octets run) override {
    if (stag != keeps) return false;
    kept.push_back({target, Bytes(run.begin(), run.end())});
    return true;
  }
  bool take_receive(ReceiveWR& wr) override {
    if (receives.empty()) return false;
    lent_receive_ = receives.front().sges;
    wr = {receives.front().id, lent_receive_};
    receives.pop_front();
    ++receives_taken;
    return true;
  }
  bool take_receive_to_flush(ReceiveWR& wr) override { return !shared && take_receive(wr); }
  void complete(const Completion& completion) override {
    (completion.opcode == WorkOpcode::Receive ? received : sent).push_back(completion);
    all.push_back(completion);
  }

  std::deque<PostedSend> sends;
  std::deque<PostedReceive> receives;
  std::deque<Completion> sent, received;
  std::deque<Completion> all;  ///< both, in the order in which they came
  std::size_t sends_taken = 0, receives_taken = 0;
  bool shared = false;  ///< the receives come from a shared RQ
  STag keeps;           ///< Writes through it are kept
  std::vector<std::pair<std::uint8_t*, Bytes>> kept;

 private:
  std::vector<SGE> lent_send_, lent_receive_;
  std::deque<Bytes> open_inline_;
  wire::AtomicOperands lent_operands_;
  WindowBinding lent_binding_;
};

/// A registered buffer.
struct Region {
  std::unique_ptr<Bytes> memory;
  STag stag;
  std::uint64_t to = 0;

  std::uint8_t* data() const { return memory->data(); }
  SGE sge(std::uint32_t octets, std::uint64_t offset = 0) const {
    return {to + offset, octets, stag};
  }
  SGE sge() const { return sge(static_cast<std::uint32_t>(memory->size())); }
  void fill(const Bytes& with) const { std::copy(with.begin(), with.end(), memory->begin()); }
  std::uint64_t number(std::size_t offset = 0) const {
    std::uint64_t value;
    std::memcpy(&value, data() + offset, sizeof value);
    return value;
  }
  void set_number(std::uint64_t value, std::size_t offset = 0) const {
    std::memcpy(data() + offset, &value, sizeof value);
  }
  std::string text(std::size_t octets, std::size_t offset = 0) const {
    return {reinterpret_cast<const char*>(data()) + offset, octets};
  }
};

/// Heap storage on a 64-octet boundary, as QP and MemoryTable want it.
class AlignedStorage {
 public:
  explicit AlignedStorage(std::size_t octets) : memory_(octets + 64), octets_(octets) {}
  MutableOctets octets() {
    const auto at = reinterpret_cast<std::uintptr_t>(memory_.data());
    return {memory_.data() + (64 - at % 64) % 64, octets_};
  }

 private:
  Bytes memory_;
  std::size_t octets_;
};

}  // namespace weft::core::testing

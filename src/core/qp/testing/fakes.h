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

#include "core/host.h"
#include "core/memory/memory_table.h"

namespace weft::core::testing {

using Bytes = std::vector<std::uint8_t>;
inline constexpr PD kPD{7};
inline constexpr PD kOtherPD{8};
inline constexpr StreamId kStream{3};
inline constexpr StreamId kOtherStream{4};

Bytes bytes(std::string_view text);
/// Octets 0, 1, 2 ... of a pattern that does not repeat within a segment.
Bytes pattern(std::size_t octets, std::uint8_t seed = 1);

/// Copies with memcpy; one range of addresses may be "unmapped".
class PlainMover final : public Mover {
 public:
  void unmap(const std::uint8_t* begin, std::size_t octets) { gone_ = Octets(begin, octets); }

  std::uint32_t crc_extend(std::uint32_t state, Octets data) override;
  bool crc_registered(std::uint32_t* state, const std::uint8_t* source,
                      std::size_t octets) override;
  bool fetch(std::uint8_t* target, const std::uint8_t* source, std::size_t octets,
             std::uint32_t* state, ReadBy) override;
  bool place(std::uint8_t* target, Octets source, std::uint32_t* state) override;
  bool update(std::uint8_t* target, const AtomicChange& change,
              std::uint64_t* original) override;

  std::size_t placements = 0, summed_placements = 0, fetches = 0;

 private:
  bool gone(const std::uint8_t* p, std::size_t octets) const;
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

  FakeQueues();
  ~FakeQueues();
  bool take_send(SendWR& wr) override;
  bool send_pending() const override { return !sends.empty(); }
  bool keep_write(STag stag, std::uint8_t* target, Octets run) override;
  bool take_receive(ReceiveWR& wr) override;
  bool take_receive_to_flush(ReceiveWR& wr) override { return !shared && take_receive(wr); }
  void complete(const Completion& completion) override;

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

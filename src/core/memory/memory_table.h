// Protection: STags, what they name, and the checks before any octet moves (RFC 5040 §8.1.1,
// RFC 5041 §7.1 and §8, verbs draft §7).
#pragma once

#include <cstdint>
#include <optional>

#include "base/octets.h"
#include "base/result.h"
#include "wire/numbers.h"

namespace weft::core {

/// Rights of a region, or'ed. RemoteWrite needs LocalWrite. Local read is always allowed.
enum Access : std::uint32_t {
  kLocalWrite = 1u << 0,
  kRemoteWrite = 1u << 1,
  kRemoteRead = 1u << 2,
  kRemoteAtomic = 1u << 3,
  kWindowBind = 1u << 4,
  kZeroBased = 1u << 5,
};

/// Protection domain number; never 0 for a real one.
struct PD {
  std::uint32_t value = 0;
  friend constexpr bool operator==(PD, PD) = default;
};

/// One stream (QP) of a device; 0 is none.
struct StreamId {
  std::uint32_t value = 0;
  friend constexpr bool operator==(StreamId, StreamId) = default;
};

/// Who asks for access: a stream, and the PD that it, or its shared RQ, belongs to.
struct Requester {
  constexpr Requester(PD p, StreamId s = {}) : pd(p), stream(s) {}
  PD pd;
  StreamId stream;
};

struct RegionAttributes {
  PD pd;
  StreamId stream;  ///< if not 0: of all streams of `pd`, only this one is let in (RFC 5041 §8.2)
  std::uint32_t access = 0;     ///< Access bits
  std::uint64_t base_to = 0;    ///< tagged offset of the first octet (the VA, or 0 if zero-based)
  std::uint8_t* address = nullptr;  ///< where it lies in this process
  std::uint64_t octets = 0;
};

/// Why an access is refused, in the order in which it is checked.
enum class MemoryFault : std::uint8_t {
  InvalidSTag,
  NotAssociated,  ///< other PD, tied to another stream, or to none where it has to be
  Access,
  Wrap,    ///< TO + length passes 2^64
  Bounds,
};

/// All regions of one device.
///
/// Invariants: STag index 0 is never handed out; an STag's upper 24 bits are drawn from the random
/// octets the caller passes, so that one STag tells nothing about another (SEC-06), and a freed
/// index is not reused while the table can avoid it: slots are reused first in, first out, and a
/// freed slot keeps its old index occupied until then. Every access check is byte exact.
/// Threads: none of its own. The engine's progress lock covers every call, so a deregistration
/// returns only when no placement is under way, and none can start after it.
class MemoryTable {
 public:
  static constexpr std::uint32_t kCapacityMax = 1u << 20;

  /// Octets of storage that `capacity` regions need; capacity is 1..kCapacityMax. Storage is
  /// touched as regions come, so a large table that stays nearly empty costs address space only.
  static std::size_t storage_octets(std::uint32_t capacity);
  /// `storage`: zeroed, aligned to 64, at least storage_octets(capacity); outlives the table.
  MemoryTable(MutableOctets storage, std::uint32_t capacity);
  MemoryTable(const MemoryTable&) = delete;
  MemoryTable& operator=(const MemoryTable&) = delete;

  /// Registers a region. `random` seeds the STag (index and key); draw it afresh for each call.
  /// Errors: ENOMEM when full; EINVAL when rights contradict (remote write or atomic without local
  /// write, unknown bits, zero based with a base_to other than 0), when there is no PD or no
  /// address, when address + octets or base_to + octets passes 2^64.
  Result<STag> register_region(const RegionAttributes&, std::uint64_t random);
  /// Errors: EINVAL when there is no such region.
  Result<void> deregister(STag);
  /// Changes PD, rights, or place of a region, keeping its STag (ibv_rereg_mr); the region is Valid
  /// afterwards. Errors as above.
  Result<void> reregister(STag, const RegionAttributes&);

  /// May `octets` at `to` of `stag` be accessed with `rights` by this requester? The place in
  /// memory, or the first fault in the order of MemoryFault. octets == 0 is the caller's to skip:
  /// RDMAP validates nothing for empty accesses (verbs draft §7).
  Result<std::uint8_t*, MemoryFault> check(STag, std::uint64_t to, std::uint64_t octets,
                                           std::uint32_t rights, Requester) const;
  /// The local consumer takes a region back: Valid becomes Invalid (it stays registered until
  /// deregistered). Fault: InvalidSTag, NotAssociated. An already Invalid region is accepted (verbs
  /// draft §7).
  Result<void, MemoryFault> invalidate(STag, Requester);
  /// The peer takes it back by Send with Invalidate (RFC 5040 §5.3): the same, but only of a region
  /// that is tied to the peer's own stream. What all streams of a PD share, no peer may close to
  /// the others (RFC 5040 §8.1.1 item 7).
  Result<void, MemoryFault> invalidate_for_peer(STag, Requester);
  /// Regions that hold `pd`: a PD with regions cannot be destroyed. Looks at every slot ever used.
  std::uint32_t region_count(PD) const;
  std::uint32_t region_count() const { return count_; }
  /// The attributes of a registered region, Valid or not.
  std::optional<RegionAttributes> find(STag) const;

 private:
  struct Slot;
  /// The slot that owns an STag index, in use or waiting for reuse; null if no slot does.
  Slot* slot_of(std::uint32_t index) const;
  /// The registered region of this very STag, Valid or not.
  Slot* region_of(STag) const;
  static bool lets_in(const RegionAttributes&, Requester);
  /// The bucket that holds `index`, or the free one where it belongs.
  std::uint32_t bucket_of(std::uint32_t index) const;
  std::uint32_t draw_stag(std::uint64_t random);
  std::uint32_t take_slot();
  void forget_index(std::uint32_t index);

  Slot* slots_ = nullptr;              ///< capacity_ regions
  std::uint32_t* buckets_ = nullptr;   ///< open addressing by STag index: slot + 1, 0 = free
  std::uint32_t capacity_ = 0;
  std::uint32_t bucket_mask_ = 0;
  std::uint32_t count_ = 0;
  std::uint32_t fresh_ = 0;      ///< slots from here on were never used
  std::uint32_t free_head_ = 0;  ///< freed slots, oldest first: slot + 1, 0 = none
  std::uint32_t free_tail_ = 0;
  std::uint64_t draws_ = 0;      ///< so that a caller's repeated `random` still gives new STags
};

}  // namespace weft::core

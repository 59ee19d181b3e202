// Protection: STags, what they name, and the checks before any octet moves (RFC 5040 §8.1.1,
// RFC 5041 §7.1 and §8, verbs draft §7).
#pragma once

#include <cstdint>
#include <optional>

#include "base/octets.h"
#include "base/result.h"
#include "wire/numbers.h"

namespace weft::core {

/// Rights of a region or a window, or'ed. RemoteWrite needs LocalWrite. Every region has LocalRead,
/// asked for or not, and no window has: a window's STag is of no use to our own requests.
enum Access : std::uint32_t {
  kLocalWrite = 1u << 0,
  kRemoteWrite = 1u << 1,
  kRemoteRead = 1u << 2,
  kRemoteAtomic = 1u << 3,
  kWindowBind = 1u << 4,
  kZeroBased = 1u << 5,
  kLocalRead = 1u << 6,
  kNull = 1u << 7,  ///< there is no memory: reading gives zeros, what is written is lost
};

/// `address` of a null region: so many octets that take what is written, and then so many of 0.
/// More than one access has, so no other bound is needed.
inline constexpr std::uint64_t kNullOctets = std::uint64_t{1} << 32;

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

/// Which streams a window lets in while it is bound.
enum class WindowKind : std::uint8_t {
  Type1,  ///< all of its PD
  Type2,  ///< the one that bound it (2B: bound by a work request, which chooses the key)
};

/// Makes a window name a part of a region.
struct WindowBinding {
  STag stag;  ///< the index names the window; the key is the one it has from then on
  STag region;
  std::uint64_t to = 0;      ///< of the region
  std::uint64_t octets = 0;  ///< 0: the window is unbound, and nothing else here counts
  std::uint32_t access = 0;  ///< RemoteRead, RemoteWrite, RemoteAtomic; ZeroBased: `to` is its 0
};

/// Why a window is not bound.
enum class BindFault : std::uint8_t {
  NoWindow,
  NotAssociated,  ///< the window, the region and the requester are not of one PD
  AlreadyBound,   ///< type 2 is unbound by invalidation only
  NoRegion,       ///< there is none, or it is Invalid, or a window
  Access,         ///< rights that the region does not give; it is zero based or has no WindowBind
  Bounds,
};

/// Why an access is refused, in the order in which it is checked.
enum class MemoryFault : std::uint8_t {
  InvalidSTag,
  NotAssociated,  ///< other PD, tied to another stream, or to none where it has to be
  Access,
  Wrap,    ///< TO + length passes 2^64
  Bounds,
};

/// All regions of one device, and the windows onto them.
///
/// Regions and windows are two kinds of one thing: check() does not tell them apart. A window is
/// Invalid until it is bound; bound it stands on its own: only its rights and bounds count, not the
/// region's. A region cannot go or change while a window is bound to it.
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

  /// Octets of storage that `capacity` regions and windows need; capacity is 1..kCapacityMax.
  /// Storage is touched as regions come, so a large table that stays nearly empty costs address
  /// space only.
  static std::size_t storage_octets(std::uint32_t capacity);
  /// `storage`: zeroed, aligned to 64, at least storage_octets(capacity); outlives the table.
  MemoryTable(MutableOctets storage, std::uint32_t capacity);
  MemoryTable(const MemoryTable&) = delete;
  MemoryTable& operator=(const MemoryTable&) = delete;

  /// Registers a region. `random` seeds the STag (index and key); draw it afresh for each call.
  /// Errors: ENOMEM when full; EINVAL when rights contradict (remote write or atomic without local
  /// write, unknown bits, zero based with a base_to other than 0, anything remote of a null
  /// region), when there is no PD or no
  /// address, when address + octets or base_to + octets passes 2^64.
  Result<STag> register_region(const RegionAttributes&, std::uint64_t random);
  /// Errors: EINVAL when there is no such region, EBUSY while windows are bound to it.
  Result<void> deregister(STag);
  /// Changes PD, rights, or place of a region, keeping its STag (ibv_rereg_mr); the region is Valid
  /// afterwards. Errors as above.
  Result<void> reregister(STag, const RegionAttributes&);

  /// May `octets` at `to` of `stag` be accessed with `rights` by this requester? The place in
  /// memory, or the first fault in the order of MemoryFault. octets == 0 is the caller's to skip:
  /// RDMAP validates nothing for empty accesses (verbs draft §7).
  Result<std::uint8_t*, MemoryFault> check(STag, std::uint64_t to, std::uint64_t octets,
                                           std::uint32_t rights, Requester) const;
  /// The local consumer takes a region or a window of type 2 back: Valid becomes Invalid (it stays
  /// registered until deregistered). Fault: InvalidSTag, NotAssociated; the latter also for a
  /// window of type 1, which a bind unbinds, and for a region with windows bound to it. What is
  /// Invalid already is accepted (verbs draft §7).
  Result<void, MemoryFault> invalidate(STag, Requester);
  /// The peer takes it back by Send with Invalidate (RFC 5040 §5.3): the same, but only of what is
  /// tied to the peer's own stream. What all streams of a PD share, no peer may close to the others
  /// (RFC 5040 §8.1.1 item 7).
  Result<void, MemoryFault> invalidate_for_peer(STag, Requester);

  /// An unbound window. `random` as above. Errors: ENOMEM when full, EINVAL without a PD.
  Result<STag> allocate_window(PD, WindowKind, std::uint64_t random);
  /// Bound or not; the index alone names the window, since a bind that failed leaves its owner with
  /// a key that it never had. Errors: EINVAL when there is no such window.
  Result<void> deallocate_window(STag);
  /// Binds a window; of type 2 to the requester's stream, to which it stays tied until it is bound
  /// again, invalidated or not. The old key is dead at once. A fault leaves all as it was.
  Result<void, BindFault> bind(const WindowBinding&, Requester);
  /// The stream is over and its id may come back: windows tied to it become Invalid and are tied to
  /// none. Costs nothing when no window is tied to any stream.
  void release_stream(StreamId);

  /// Is there a Valid region of `pd` with all of this memory, of at least one octet? Looks at every
  /// slot ever used.
  bool holds(PD pd, const std::uint8_t* address, std::uint64_t octets) const;
  /// Regions and windows that hold `pd`: such a PD cannot be destroyed. Looks at every slot ever
  /// used.
  std::uint32_t region_count(PD) const;
  std::uint32_t region_count() const { return count_; }
  /// The attributes of a registered region, Valid or not; nothing of windows.
  std::optional<RegionAttributes> find(STag) const;

 private:
  struct Slot;
  /// The slot that owns an STag index, in use or waiting for reuse; null if no slot does.
  Slot* slot_of(std::uint32_t index) const;
  /// The registered region or window of this very STag, Valid or not.
  Slot* region_of(STag) const;
  /// The window with this index, whatever its key.
  Slot* window_at(std::uint32_t index) const;
  std::uint32_t number_of(const Slot&) const;
  static bool lets_in(const RegionAttributes&, Requester);
  /// The bucket that holds `index`, or the free one where it belongs.
  std::uint32_t bucket_of(std::uint32_t index) const;
  std::uint32_t draw_stag(std::uint64_t random);
  std::uint32_t take_slot();
  Slot* add_slot(std::uint64_t random);
  void free_slot(Slot&);
  /// A region that no window holds: EINVAL or EBUSY.
  Result<Slot*> region_to_change(STag) const;
  static std::optional<BindFault> judge(const WindowBinding&, const RegionAttributes&, bool shared,
                                        Requester);
  void unbind(Slot& window);
  void tie(Slot& window, StreamId);
  void untie(Slot& window);
  void forget_index(std::uint32_t index);

  Slot* slots_ = nullptr;              ///< capacity_ regions and windows
  std::uint32_t* buckets_ = nullptr;   ///< open addressing by STag index: slot + 1, 0 = free
  std::uint32_t capacity_ = 0;
  std::uint32_t bucket_mask_ = 0;
  std::uint32_t count_ = 0;
  std::uint32_t fresh_ = 0;      ///< slots from here on were never used
  std::uint32_t free_head_ = 0;  ///< freed slots, oldest first: slot + 1, 0 = none
  std::uint32_t free_tail_ = 0;
  std::uint32_t tied_ = 0;       ///< windows tied to a stream: slot + 1, 0 = none
  std::uint64_t draws_ = 0;      ///< so that a caller's repeated `random` still gives new STags
};

}  // namespace weft::core

// The entries of the work and completion rings: plain, position-independent, one cache line each
// when small. The device copies an entry once, checks the copy and uses the copy.
#pragma once

#include <cstdint>

namespace weft::device {

inline constexpr std::uint32_t kSGECountMax = 32;
inline constexpr std::uint32_t kInlineOctetsMax = 512;

/// One run of local registered memory. The layout of ibv_sge.
struct SGEntry {
  std::uint64_t address;
  std::uint32_t octets;
  std::uint32_t stag;
};
static_assert(sizeof(SGEntry) == 16);

enum class SendOpcode : std::uint8_t {
  Send,
  SendInvalidate,
  Write,
  Read,
  ReadInvalidate,
  LocalInvalidate,
  WriteImmediate,
  SendImmediate,
  FetchAdd,
  CompareSwap,
  BindWindow,
};

enum SendFlag : std::uint8_t {
  kSignaled = 1 << 0,
  kSolicited = 1 << 1,
  kReadFence = 1 << 2,
  kLocalFence = 1 << 3,
  kInline = 1 << 4,  ///< inline_octets octets follow instead of SGEs
};

/// The operands of FetchAdd and CompareSwap, behind the one SGE, which has room for 8 octets: the
/// original value goes there. All in the order of the host.
struct AtomicEntry {
  std::uint64_t operand;  ///< what to add, or to swap in
  std::uint64_t compare;
};
static_assert(sizeof(AtomicEntry) == 16);

/// What a BindWindow binds the window to that the STag in remote_stag names by its index; the key
/// is the new one. Behind the entry, without SGEs.
struct BindEntry {
  std::uint64_t to;      ///< of the region
  std::uint64_t octets;  ///< 0: the window is unbound
  std::uint32_t region_stag;
  std::uint32_t access;  ///< RegionAccess: remote rights and kZeroBased
};
static_assert(sizeof(BindEntry) == 24);

/// A send queue entry. SGEs or inline octets follow directly: two SGEs or 32 octets of inline data
/// fit the first cache line.
struct SendEntry {
  std::uint64_t wr_id;
  std::uint64_t remote_to;
  std::uint32_t remote_stag;
  union {
    std::uint32_t invalidate_stag;
    std::uint32_t immediate;  ///< of WriteImmediate and SendImmediate; in network order
  };
  SendOpcode opcode;
  std::uint8_t flags;  ///< SendFlag bits
  std::uint16_t sge_count;
  std::uint32_t inline_octets;

  SGEntry* sges() { return reinterpret_cast<SGEntry*>(this + 1); }
  BindEntry* binding() { return reinterpret_cast<BindEntry*>(this + 1); }
  AtomicEntry* atomic() { return reinterpret_cast<AtomicEntry*>(sges() + 1); }
  std::uint8_t* inline_data() { return reinterpret_cast<std::uint8_t*>(this + 1); }

  /// What it names comes back from the peer.
  bool fetches() const {
    return opcode == SendOpcode::Read || opcode == SendOpcode::ReadInvalidate ||
           opcode == SendOpcode::FetchAdd || opcode == SendOpcode::CompareSwap;
  }
  /// Payload that leaves with it, if it is well formed.
  std::uint64_t leaving_octets() const {
    if (fetches()) return 0;
    const auto* places = reinterpret_cast<const SGEntry*>(this + 1);
    std::uint64_t sum = inline_octets;
    for (std::uint16_t i = 0; i < sge_count; ++i) sum += places[i].octets;
    return sum;
  }
};
static_assert(sizeof(SendEntry) == 32);

/// A receive queue entry; three SGEs fit the first cache line.
struct ReceiveEntry {
  std::uint64_t wr_id;
  std::uint32_t sge_count;
  std::uint32_t reserved;

  SGEntry* sges() { return reinterpret_cast<SGEntry*>(this + 1); }
};
static_assert(sizeof(ReceiveEntry) == 16);

/// The values of core::WorkStatus and core::WorkOpcode, which the engine asserts.
enum class CompletionStatus : std::uint8_t {
  Success,
  LocalLength,
  LocalQPOperation,
  LocalProtection,
  Flushed,
  BadResponse,
  RemoteAccess,
  RemoteOperation,
  RemoteInvalidRequest,
  RetryExceeded,
  WindowBind,
  Fatal,
};
enum class CompletionOpcode : std::uint8_t {
  Send,
  SendInvalidate,
  Write,
  Read,
  ReadInvalidate,
  LocalInvalidate,
  WriteImmediate,
  SendImmediate,
  FetchAdd,
  CompareSwap,
  BindWindow,
  Receive,
};
enum CompletionFlag : std::uint8_t {
  kSolicitedEvent = 1 << 0,
  kInvalidated = 1 << 1,  ///< invalidated_stag is valid
  kImmediate = 1 << 2,    ///< immediate is valid
  kOfWrite = 1 << 3,      ///< a receive of Immediate Data, no Send; the octets are the Write's
};

struct CompletionEntry {
  std::uint64_t wr_id;
  std::uint64_t qp_cookie;     ///< as given to create_qp
  std::uint64_t timestamp_ns;  ///< CLOCK_MONOTONIC when it was written, in a timed CQ
  std::uint32_t qp_number;     ///< its name, if it has one
  std::uint32_t octets;
  std::uint32_t invalidated_stag;
  CompletionStatus status;
  CompletionOpcode opcode;
  std::uint8_t flags;  ///< CompletionFlag bits
  std::uint8_t reserved;
  std::uint64_t immediate;  ///< all eight octets of it, the first one on top; the verbs' are four
  std::uint64_t reserved2[2];
};
static_assert(sizeof(CompletionEntry) == 64);

}  // namespace weft::device

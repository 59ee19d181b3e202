// Work requests and completions as the core sees them.
#pragma once

#include <cstdint>
#include <span>

#include "base/octets.h"
#include "wire/atomic.h"
#include "wire/immediate.h"
#include "wire/numbers.h"

namespace weft::core {

struct WindowBinding;

inline constexpr std::uint32_t kSGECountMax = 32;

/// One run of local registered memory; the same layout as a device ring's entry.
struct SGE {
  std::uint64_t to = 0;      ///< tagged offset: the address, unless the region is zero based
  std::uint32_t octets = 0;
  STag stag;
};
static_assert(sizeof(SGE) == 16);

enum class WorkOpcode : std::uint8_t {
  Send,
  SendInvalidate,
  Write,
  Read,
  ReadInvalidate,   ///< Read, then invalidate the local sink STag
  LocalInvalidate,
  WriteImmediate,   ///< Write, then Immediate Data
  SendImmediate,    ///< Immediate Data that joins the Send behind it
  FetchAdd,
  CompareSwap,
  BindWindow,       ///< memory window to a region
  Receive,          ///< only in completions
};

struct SendWR {
  std::uint64_t id = 0;
  WorkOpcode opcode = WorkOpcode::Send;
  bool signaled = true;
  bool solicited = false;    ///< Sends, WriteImmediate: Solicited Event at the target
  bool read_fence = false;   ///< start only when earlier Reads have completed (verbs draft §8.2.2)
  bool local_fence = false;  ///< start only when all earlier WRs have completed
  std::span<const SGE> sges; ///< gather list; of a Read: the sink, at most one entry; of an atomic:
                             ///< where the original value goes, one entry of at least 8 octets
  Octets inline_data;        ///< instead of sges, when not empty
  STag remote_stag;          ///< Write: sink; Read: source; atomics: target
  std::uint64_t remote_to = 0;
  STag invalidate_stag;      ///< SendInvalidate, LocalInvalidate
  const wire::AtomicOperands* operands = nullptr;  ///< of atomics; valid as long as `sges`
  const WindowBinding* binding = nullptr;          ///< of BindWindow; likewise
  wire::Immediate immediate; ///< WriteImmediate: all of it; SendImmediate: the first four octets
};

struct ReceiveWR {
  std::uint64_t id = 0;
  std::span<const SGE> sges;
};

/// Every way a work request ends. front/ maps these 1:1 to ibv_wc_status.
enum class WorkStatus : std::uint8_t {
  Success,
  LocalLength,       ///< message longer than the receive buffer, or than 2^32 - 1
  LocalQPOperation,  ///< the WR itself makes no sense (Read with ORD 0, too many SGEs ...)
  LocalProtection,   ///< a local SGE: STag, PD, rights, bounds, or unmapped pages
  Flushed,
  BadResponse,       ///< a Read Response that does not fit its request
  RemoteAccess,      ///< a Terminate told that a remote access was refused
  RemoteOperation,   ///< a Terminate told of another remote error on this WR
  RemoteInvalidRequest,  ///< a Terminate told that the peer does not know this kind of message
  RetryExceeded,     ///< the peer of a paired QP is not there (any more)
  WindowBind,        ///< a memory window could not be bound
  Fatal,
};

struct Completion {
  std::uint64_t id = 0;
  WorkStatus status = WorkStatus::Success;
  bool signaled = true;      ///< false only for successful unsignalled send queue WRs
  WorkOpcode opcode = WorkOpcode::Send;
  bool solicited = false;    ///< receive of a solicited Send
  bool invalidated = false;  ///< receive: invalidated_stag was invalidated by the peer
  STag invalidated_stag;
  std::uint32_t octets = 0;  ///< length of the message; meaningless on error
  /// Receive: immediate data came, with a Send or as a message of its own. Then `octets` is the
  /// length of the Write that ended since the message before it on queue 0, or 0.
  enum class With : std::uint8_t { Nothing, SendImmediate, Immediate } with = With::Nothing;
  wire::Immediate immediate;
};

}  // namespace weft::core

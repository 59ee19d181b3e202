// Everything a seed decides before the first octet moves, but for the work itself.
#pragma once

#include <array>
#include <cstdint>

#include "core/mpa/startup.h"
#include "core/qp/qp.h"
#include "transport/fault/fault_transport.h"
#include "transport/fault/random.h"

namespace weft::sim {

using transport::Random;

/// What goes wrong in a run, on purpose. A run without trouble has to succeed in every detail.
enum class Trouble : std::uint8_t {
  None,
  Illegal,         ///< one work request that must end the stream, in a known way
  AbruptEnd,       ///< close with work open, terminate, fail, a local error
  Connection,      ///< the transport resets the stream or ends it early
  Corruption,      ///< bits turn over; CRC is on at both ends
  Startup,         ///< the ends do not fit each other
  Deregistration,  ///< regions are taken back while they are in use
  Many,            ///< several of these at once
};

/// The one illegal work request of Trouble::Illegal.
enum class Illegal : std::uint8_t {
  None,
  WriteBadSTag,
  WriteBeyondEnd,
  WriteWithoutRight,
  WriteNotAssociated,
  ReadBadSTag,
  ReadBeyondEnd,
  ReadWithoutRight,
  ReadNotAssociated,
  SendTooLong,
  InvalidateBadSTag,
  LocalBadSTag,
  LocalBeyondEnd,
  LocalInvalidateBadSTag,
  ReadSinkReadOnly,
  ReadTwoSinks,
  AtomicBadSTag,
  AtomicBeyondEnd,
  AtomicWithoutRight,
  AtomicNotAssociated,
  AtomicMisaligned,
  AtomicSinkReadOnly,
  // Through a window of the peer's.
  WindowWriteBeyondEnd,
  WindowWriteWithoutRight,
  WindowReadBeyondEnd,
  WindowReadWithoutRight,
  WindowReadOldKey,
  WindowReadInvalidated,
  WindowInvalidateType1,
  // With a window of our own.
  WindowLocalInvalidateType1,
  WindowBindBeyondEnd,
  WindowBindTwice,
  WindowAsLocal,
};
inline constexpr int kIllegalCount = 33;
const char* name(Illegal);
constexpr bool is_about_peers_window(Illegal illegal) {
  return illegal >= Illegal::WindowWriteBeyondEnd && illegal <= Illegal::WindowInvalidateType1;
}
constexpr bool is_about_own_window(Illegal illegal) {
  return illegal >= Illegal::WindowLocalInvalidateType1 && illegal <= Illegal::WindowAsLocal;
}

/// How the stream is brought to its end once the script is through.
enum class Manner : std::uint8_t {
  OneCloses,   ///< all is quiet; one end closes
  BothClose,   ///< all is quiet; both close before they hear of each other
  CloseEarly,  ///< one closes, whatever is under way
  Terminate,   ///< one modifies its QP to Terminate
  Fail,        ///< one modifies its QP to Error
  LocalError,  ///< a failure of our own (a CQ overflow, say)
};

struct EndSettings {
  core::StartupConfig startup;
  core::QPConfig qp;
  bool shared_receives = false;
  bool receives_in_time = false;  ///< all receives are posted before anything else happens
  std::size_t emss = 1460;
  std::size_t batch_octets_max = 65536;
  std::size_t receive_octets_max = 65536;
  std::size_t staging_octets = 0;  ///< for a batch: at least one FPDU
  std::size_t pieces_max = 512;    ///< of a batch
  std::uint32_t parts_max = 1;     ///< arrived octets are offered as up to this many spans
  bool lands = false;              ///< payload may be received straight into its place
  bool waits_for_wanted = false;   ///< offers no more before `wanted` octets are there
};

struct Settings {
  std::uint64_t seed = 0;
  Trouble trouble = Trouble::None;
  Illegal illegal = Illegal::None;
  Manner manner = Manner::OneCloses;
  std::size_t acting_end = 0;  ///< whose illegal request, or who ends the stream
  bool manner_at_random_time = false;
  bool deregisters = false;
  bool retries_revision_1 = false;
  std::array<EndSettings, 2> ends;  ///< 0: initiator
  transport::FaultConfig faults;
  std::size_t buffer_octets = 65536;  ///< on the way, in each direction
  std::size_t region_octets = 4096;   ///< size of the larger regions; messages are up to half of it
  std::uint32_t sends_max = 24;       ///< work requests of each end
  Duration script_span{};             ///< posts are spread over this time
  bool emss_changes = false;
  std::uint32_t rounds = 1;  ///< streams one after another on the same two QPs

  /// Reads that `end` may have open once the depths are settled, if nothing gets in the way.
  std::uint32_t reads_allowed(std::size_t end) const;
  /// The RTR message that the initiator has to choose.
  core::RTR rtr() const;
  bool peaceful() const { return trouble == Trouble::None; }
};

Settings draw_settings(std::uint64_t seed, Random&);

}  // namespace weft::sim

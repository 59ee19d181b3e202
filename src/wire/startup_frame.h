// MPA Request and Reply frames (RFC 5044 §7.1.1, RFC 6581 §6 and §9).
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "base/octets.h"

namespace weft::wire {

inline constexpr std::size_t kStartupHeaderOctets = 20;
inline constexpr std::size_t kEnhancedOctets = 4;
inline constexpr std::size_t kPrivateDataOctetsMax = 512;
/// Private data left for the ULP when the enhanced words are present.
inline constexpr std::size_t kPrivateDataOctetsMaxEnhanced = 508;
inline constexpr std::size_t kStartupFrameOctetsMax = kStartupHeaderOctets + kPrivateDataOctetsMax;
/// IRD/ORD value that means "the ULP negotiates this itself" (RFC 6581 §9.1).
inline constexpr std::uint16_t kDepthByULP = 0x3fff;

/// The RFC 6581 words.
struct Enhanced {
  std::uint16_t ird = 0;      ///< 0..0x3fff
  std::uint16_t ord = 0;      ///< 0..0x3fff
  bool peer_to_peer = false;  ///< A
  bool rtr_send = false;      ///< B
  bool rtr_write = false;     ///< C
  bool rtr_read = false;      ///< D
  friend bool operator==(const Enhanced&, const Enhanced&) = default;
};

enum class StartupKind : std::uint8_t { Request, Reply };

struct StartupFrame {
  StartupKind kind = StartupKind::Request;
  bool markers = false;   ///< M: "I want markers in what I receive"
  bool crc = false;       ///< C
  bool rejected = false;  ///< R, meaningful in a Reply
  std::uint8_t revision = 1;
  std::optional<Enhanced> enhanced;  ///< S
  Octets private_data;               ///< the ULP's, without the enhanced words; borrowed

  std::size_t octets() const;
  /// Writes octets() octets, out.size() >= octets(); private data within its limit, else asserts.
  std::size_t encode(MutableOctets out) const;
};

enum class StartupFault : std::uint8_t {
  BadKey,             ///< neither key
  PrivateDataLength,  ///< PD_Length > 512, or < 4 with S set
};
/// The octets so far are a valid prefix; at least `octets_total` in all are needed to go on.
struct NeedMore {
  std::size_t octets_total;
};

/// Reads a frame from the front of `in`. Judges the key octet by octet, so a wrong peer (an HTTP
/// server, say) is found at its first octet; then PD_Length, before any private data has come.
/// Revision, S, kind and flags are for the state machine. A frame found occupies frame.octets()
/// octets of `in`, and borrows from it. Never asks for more than kStartupFrameOctetsMax. Pure.
std::variant<StartupFrame, NeedMore, StartupFault> parse_startup_frame(Octets in);

}  // namespace weft::wire

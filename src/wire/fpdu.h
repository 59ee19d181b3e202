// FPDU arithmetic (RFC 5044 §4): lengths, padding, markers, MULPDU. No state, no octets moved.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/byte_order.h"

namespace weft::wire {

inline constexpr std::size_t kUlpduLengthOctets = 2;
inline constexpr std::size_t kCRCOctets = 4;
inline constexpr std::size_t kMarkerOctets = 4;
inline constexpr std::uint32_t kMarkerInterval = 512;
inline constexpr std::size_t kMulpduMin = 128;
inline constexpr std::size_t kMulpduMax = 64768;

/// Zero octets after a ULPDU so that 2 + ULPDU + PAD is a multiple of 4 (RFC 5044 §4.1).
constexpr std::size_t pad_octets(std::size_t ulpdu_octets) {
  return (4 - (kUlpduLengthOctets + ulpdu_octets) % 4) % 4;
}
/// An FPDU's size without markers.
constexpr std::size_t fpdu_octets(std::size_t ulpdu_octets) {
  return kUlpduLengthOctets + ulpdu_octets + pad_octets(ulpdu_octets) + kCRCOctets;
}
/// How many markers lie in an FPDU (without markers `octets` long) that starts at stream position
/// `position`, counting the one directly before its first octet if position % 512 == 0.
/// Positions count octets, markers included, since full operation began; modulo 2^32
/// (RFC 5044 §4.3).
constexpr std::size_t marker_count(std::uint32_t position, std::size_t octets) {
  // A marker falls every 512 octets and 508 of them are FPDU. `before` octets can be written
  // until the next marker position is reached. A marker exactly after the last octet belongs to
  // the next FPDU.
  const std::size_t before = (kMarkerInterval - position % kMarkerInterval) % kMarkerInterval;
  if (octets <= before) return 0;
  return 1 + (octets - before - 1) / (kMarkerInterval - kMarkerOctets);
}
/// MULPDU for an effective MSS (RFC 5044 §4.5), clamped to 128..64768.
//= MPA-20
//= MPA-21
constexpr std::size_t mulpdu(std::size_t emss, bool markers) {
  const std::size_t overhead =
      6 + (markers ? 4 * ((emss + kMarkerInterval - 1) / kMarkerInterval) : 0) + emss % 4;
  const std::size_t raw = emss > overhead ? emss - overhead : 0;
  return raw < kMulpduMin ? kMulpduMin : raw > kMulpduMax ? kMulpduMax : raw;
}
/// A marker: 16 reserved zero bits, then FPDUPTR (RFC 5044 §4.2).
constexpr void store_marker(std::uint8_t* p, std::uint16_t fpdu_pointer) {
  store_be16(p, 0);
  store_be16(p + 2, static_cast<std::uint16_t>(fpdu_pointer & ~3u));
}
constexpr std::uint16_t load_marker(const std::uint8_t* p) {
  return static_cast<std::uint16_t>(load_be16(p + 2) & ~3u);
}

}  // namespace weft::wire

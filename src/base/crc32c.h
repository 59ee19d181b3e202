// CRC32C (Castagnoli), as iSCSI and MPA use it (RFC 3720 12.1 and B.4, RFC 5044 4.4).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/octets.h"

namespace weft {

/// A running CRC. Start at kCRC32CStart, extend over any number of pieces in order, then finish.
/// The state is the register before the final complement.
inline constexpr std::uint32_t kCRC32CStart = 0xffffffffu;

/// The register after `data`. Pure. Freestanding: the table-driven reference.
std::uint32_t crc32c_extend_portable(std::uint32_t state, Octets data);

/// The same function at memory speed (runtime dispatch); hosted builds only.
std::uint32_t crc32c_extend(std::uint32_t state, Octets data);

/// The same function for octets that are likely in no cache: it asks for them ahead of the CRC,
/// and for some behind their end. Where they are in the cache it is slower. Hosted builds only.
std::uint32_t crc32c_extend_ahead(std::uint32_t state, Octets data);

/// Copies source to target and returns the register after the copied octets: the CRC is that of
/// what was *stored*, whatever another thread does to the source meanwhile. target.size() must be
/// at least source.size(); no overlap. Hosted builds only.
std::uint32_t crc32c_copy(std::uint32_t state, MutableOctets target, Octets source);
/// The same, stored past the caches if it is long and the processor folds: for a target that
/// another core reads next.
std::uint32_t crc32c_copy_past(std::uint32_t state, MutableOctets target, Octets source);

/// The same two for a source that nobody changes and a target that others may: the CRC is that of
/// the source.
std::uint32_t crc32c_place(std::uint32_t state, MutableOctets target, Octets source);
std::uint32_t crc32c_place_past(std::uint32_t state, MutableOctets target, Octets source);

/// The register after `octets` more octets, of which the register from 0 is `sum`. Pure.
/// Freestanding; takes the time of some hundred octets, less where `octets` is a power of two, and
/// next to nothing where it is 32 KiB.
std::uint32_t crc32c_append(std::uint32_t state, std::uint32_t sum, std::size_t octets);

/// The value to store: least significant octet first on the wire (RFC 3720 B.4).
constexpr std::uint32_t crc32c_finish(std::uint32_t state) { return ~state; }

/// Stores / loads a finished CRC in wire order.
constexpr void store_crc(std::uint8_t* p, std::uint32_t crc) {
  p[0] = static_cast<std::uint8_t>(crc);
  p[1] = static_cast<std::uint8_t>(crc >> 8);
  p[2] = static_cast<std::uint8_t>(crc >> 16);
  p[3] = static_cast<std::uint8_t>(crc >> 24);
}
constexpr std::uint32_t load_crc(const std::uint8_t* p) {
  return std::uint32_t{p[0]} | (std::uint32_t{p[1]} << 8) | (std::uint32_t{p[2]} << 16) |
         (std::uint32_t{p[3]} << 24);
}

}  // namespace weft

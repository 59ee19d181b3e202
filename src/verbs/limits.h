// How many of each thing one process may have, as the device attributes tell it.
//
// These are promises to programs that size themselves by them, not reservations: what a program
// really gets ends where its memory and descriptors end (ENOMEM, EMFILE).
#pragma once

#include <cstdint>

namespace weft::verbs {

inline constexpr int kPDCountMax = 1 << 16;
inline constexpr int kRegionCountMax = 1 << 20;  ///< regions and windows together
inline constexpr int kCQCountMax = 1 << 16;
inline constexpr int kSRQCountMax = 1 << 14;
inline constexpr int kQPCountMax = 1 << 16;

/// iWARP: a Read has one sink (RFC 5040 §5.2).
inline constexpr int kReadSGECountMax = 1;

/// A message's length is told in 32 bits; perftest and others hold it in an int.
inline constexpr std::uint32_t kMessageOctetsMax = 1u << 31;

}  // namespace weft::verbs

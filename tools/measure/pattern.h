// Data that proves itself: what a message contains follows from its number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::measure {

/// Fills `place` with the pattern of message `number` of the leg with `seed`.
void fill_pattern(std::span<std::byte> place, std::uint64_t seed, std::uint64_t number);
/// The first octet that is not of that pattern, or place.size().
std::size_t find_wrong(std::span<const std::byte> place, std::uint64_t seed, std::uint64_t number);
/// Throws Failure for octets of a message that differ from its pattern.
void expect_pattern(std::span<const std::byte> place, std::uint64_t seed, std::uint64_t number);

/// The same for a message whose last octet is there already: an RDMA Write may be seen by that a
/// moment before the octets in front of it, since a copy runs in any order; but not for long.
void expect_pattern_soon(std::span<const std::byte> place, std::uint64_t seed,
                         std::uint64_t number);
/// The last octet of memory that a peer's RDMA Writes go to, as it is now. What was placed before
/// it can be read then.
std::byte last_octet(std::span<std::byte> place);

}  // namespace weft::measure

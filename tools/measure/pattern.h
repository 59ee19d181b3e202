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

}  // namespace weft::measure

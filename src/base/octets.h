// Spans of octets: the only way weft's layers hand each other bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

/// Octets that are only read. Borrowed: valid as long as the call that received them says.
using Octets = std::span<const std::uint8_t>;
/// Octets that may be written.
using MutableOctets = std::span<std::uint8_t>;

}  // namespace weft

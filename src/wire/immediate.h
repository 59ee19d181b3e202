// Immediate Data: eight octets, and how the verbs' four lie in them (RFC 7306 §6.2).
#pragma once

#include <cstdint>

#include "base/byte_order.h"
#include "base/octets.h"

namespace weft::wire {

/// What follows the DDP header of an Immediate Data message, as a number: the first octet is the
/// most significant one.
///
/// RFC 7306 leaves the eight octets to the ULP; the verbs have four of them. Those come first and
/// are followed by zeros, which is what other RNICs do. `kOfNextSend` in place of the zeros says
/// that they belong to the Send behind them
/// (docs/adr/0007-a-send-with-immediate-is-two-messages.md).
struct Immediate {
  static constexpr std::size_t kOctets = 8;
  static constexpr std::uint32_t kOfNextSend = 0x53656e64;  ///< "Send"
  std::uint64_t value = 0;

  /// The first four octets, as a number.
  constexpr std::uint32_t first() const { return static_cast<std::uint32_t>(value >> 32); }
  constexpr bool is_of_next_send() const {
    return static_cast<std::uint32_t>(value) == kOfNextSend;
  }
  /// The same first four octets, for the Send behind it.
  constexpr Immediate of_next_send() const {
    return {(value & ~std::uint64_t{0xffffffff}) | kOfNextSend};
  }

  /// out, in: kOctets octets at least.
  void encode(MutableOctets out) const { store_be64(out.data(), value); }
  static Immediate parse(Octets in) { return {load_be64(in.data())}; }
  friend bool operator==(const Immediate&, const Immediate&) = default;
};

}  // namespace weft::wire

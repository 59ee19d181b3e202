// Octets and words of the rsockets wire protocol: connection data and the 32-bit message.
#pragma once

#include <array>
#include <cstdint>

#include "base/octets.h"
#include "base/result.h"

namespace weft::sockets {

/// What a message tells. The other four codes are reserved: whoever sends them is no rsocket.
enum class Op : std::uint8_t {
  Data = 0,        ///< octets just written
  Credits = 4,     ///< the receiver's new absolute limit; its next buffer may have been written
  IomapEntry = 6,  ///< index of the iomap entry just written
  Control = 7,
};

enum class Control : std::uint32_t { Disconnect = 0, Keepalive = 1, Shutdown = 2 };

inline constexpr unsigned kMessageDataBits = 29;
inline constexpr std::uint32_t kMessageDataMax = (1u << kMessageDataBits) - 1;

/// A message in host order. Data beyond 29 bits is cut, which a limit of credits is meant to be.
constexpr std::uint32_t make_message(Op op, std::uint32_t data) {
  return std::uint32_t{static_cast<std::uint8_t>(op)} << kMessageDataBits |
         (data & kMessageDataMax);
}
constexpr std::uint32_t make_message(Control control) {
  return make_message(Op::Control, static_cast<std::uint32_t>(control));
}
constexpr unsigned message_op(std::uint32_t message) {
  return message >> kMessageDataBits;
}
constexpr std::uint32_t message_data(std::uint32_t message) {
  return message & kMessageDataMax;
}

/// A piece of memory that the other side may write. As it lies in the target SGL: host order of the
/// side that reads it.
struct Sge {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t length = 0;
};
static_assert(sizeof(Sge) == 16);

/// An entry of the iomap: octets at `offset` of the peer's file lie at `memory`.
struct IomapEntry {
  std::uint64_t offset = 0;
  Sge memory;
};
static_assert(sizeof(IomapEntry) == 24);

constexpr Sge swapped(const Sge& sge) {
  return {__builtin_bswap64(sge.address), __builtin_bswap32(sge.key),
          __builtin_bswap32(sge.length)};
}

/// How many target buffers there are, and so entries of the target SGL.
inline constexpr std::uint32_t kTargetEntries = 2;

/// The private data of connect and of accept.
struct ConnectData {
  static constexpr std::size_t kOctets = 40;
  static constexpr std::uint8_t kVersion = 1;

  bool big_endian = false;
  bool has_iomap = true;
  std::uint16_t credits = 0;        ///< receives posted
  std::uint32_t iomap_entries = 0;  ///< behind the target SGL; see scaled()
  Sge target_sgl;                   ///< length: its entries
  Sge buffer;                       ///< the first half of the receive ring
};

/// Private data of a rejection: who sends it speaks iWARP and wants no connection, so TCP need not
/// be tried. Rsockets elsewhere send none.
inline constexpr std::array<std::uint8_t, 4> kRefusal{'b', 'u', 's', 'y'};
/// Padding may follow. Pure.
constexpr bool is_refusal(Octets octets) {
  if (octets.size() < kRefusal.size()) return false;
  for (std::size_t i = 0; i < kRefusal.size(); ++i) {
    if (octets[i] != kRefusal[i]) return false;
  }
  return true;
}

/// The size that the peer reads for a wanted one: to 128 exact, above in steps of 256.
std::uint32_t announced_iomap_entries(std::uint32_t wanted);

/// Pure.
std::array<std::uint8_t, ConnectData::kOctets> encode(const ConnectData& data);
/// EPROTO: too short, another version, no credits, or an SGL without entries. Octets that follow
/// are padding of the connection manager. Pure.
Result<ConnectData> parse_connect_data(Octets octets);

}  // namespace weft::sockets

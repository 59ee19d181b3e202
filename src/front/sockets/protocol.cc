// Encoding and parsing of the connection data.
#include "front/sockets/protocol.h"

#include <algorithm>
#include <cerrno>

#include "base/byte_order.h"

namespace weft::sockets {
namespace {

constexpr std::uint8_t kBigEndian = 0x01;
constexpr std::uint8_t kIomap = 0x02;
/// Offsets in the connection data.
constexpr std::size_t kFlagsAt = 1, kCreditsAt = 2, kIomapAt = 7, kTargetAt = 8, kBufferAt = 24;

constexpr std::uint32_t kIomapExact = 128;
constexpr std::uint32_t kIomapEntriesMax = 0x7f << 8;

void store_sge(std::uint8_t* at, const Sge& sge) {
  store_be64(at, sge.address);
  store_be32(at + 8, sge.key);
  store_be32(at + 12, sge.length);
}

Sge load_sge(const std::uint8_t* at) {
  return {load_be64(at), load_be32(at + 8), load_be32(at + 12)};
}

std::uint8_t scale(std::uint32_t entries) {
  if (entries <= kIomapExact) return static_cast<std::uint8_t>(entries);
  return static_cast<std::uint8_t>(0x80 | entries >> 8);
}

std::uint32_t unscale(std::uint8_t value) {
  return value <= kIomapExact ? value : std::uint32_t{value & 0x7fu} << 8;
}

}  // namespace

std::uint32_t announced_iomap_entries(std::uint32_t wanted) {
  if (wanted <= kIomapExact) return wanted;
  return std::min((wanted + 255) / 256 * 256, kIomapEntriesMax);
}

std::array<std::uint8_t, ConnectData::kOctets> encode(const ConnectData& data) {
  std::array<std::uint8_t, ConnectData::kOctets> octets{};
  octets[0] = ConnectData::kVersion;
  octets[kFlagsAt] =
      static_cast<std::uint8_t>((data.big_endian ? kBigEndian : 0) | (data.has_iomap ? kIomap : 0));
  store_be16(&octets[kCreditsAt], data.credits);
  octets[kIomapAt] = scale(data.iomap_entries);
  store_sge(&octets[kTargetAt], data.target_sgl);
  store_sge(&octets[kBufferAt], data.buffer);
  return octets;
}

Result<ConnectData> parse_connect_data(Octets octets) {
  if (octets.size() < ConnectData::kOctets) return Error{EPROTO, "no connection data"};
  if (octets[0] != ConnectData::kVersion) return Error{EPROTO, "another version of rsockets"};
  ConnectData data;
  data.big_endian = (octets[kFlagsAt] & kBigEndian) != 0;
  data.has_iomap = (octets[kFlagsAt] & kIomap) != 0;
  data.credits = load_be16(&octets[kCreditsAt]);
  data.iomap_entries = data.has_iomap ? unscale(octets[kIomapAt]) : 0;
  data.target_sgl = load_sge(&octets[kTargetAt]);
  data.buffer = load_sge(&octets[kBufferAt]);
  if (data.credits == 0) return Error{EPROTO, "a peer without receives"};
  if (data.target_sgl.length == 0) return Error{EPROTO, "a peer without a target SGL"};
  return data;
}

}  // namespace weft::sockets

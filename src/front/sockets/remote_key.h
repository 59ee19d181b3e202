// The octets of struct iwarp_key: how a program tells another of its registered memory.
//
//     octets   0       4        5       6     8      12       20      28
//              "IWRK"  version  rights  0, 0  STag   address  octets  CRC32C of all before
//
// All big-endian. The CRC finds keys that were cut, shifted or never were any; it is no secret.
#pragma once

#include <array>
#include <cstdint>

#include "base/octets.h"
#include "base/result.h"

namespace weft::sockets {

inline constexpr std::size_t kKeyOctets = 32;
inline constexpr std::uint8_t kKeyVersion = 1;

/// Memory at the other end.
struct RemoteMemory {
  std::uint64_t address = 0;
  std::uint64_t octets = 0;
  std::uint32_t key = 0;
  std::uint32_t rights = 0;  ///< IWARP_REMOTE_READ, IWARP_REMOTE_WRITE
};

/// Pure.
std::array<std::uint8_t, kKeyOctets> encode_key(const RemoteMemory& memory);
/// EBADMSG: no key, damaged, or of memory that cannot be. EPROTONOSUPPORT: of another version.
/// Pure.
Result<RemoteMemory> parse_key(Octets octets);

/// Twice kKeyOctets digits. Pure.
void key_to_text(Octets key, char* text);
/// EBADMSG: not exactly so many hexadecimal digits. `text` ends with a 0. Pure.
Result<std::array<std::uint8_t, kKeyOctets>> key_from_text(const char* text);

}  // namespace weft::sockets

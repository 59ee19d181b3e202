// Encoding and parsing of keys.
#include "front/sockets/remote_key.h"

#include <algorithm>
#include <cerrno>
#include <string_view>

#include <weft/sockets.h>

#include "base/byte_order.h"
#include "base/crc32c.h"

namespace weft::sockets {
namespace {

constexpr std::string_view kMagic = "IWRK";
constexpr std::size_t kCheckAt = 28;
constexpr std::uint32_t kRights = IWARP_REMOTE_READ | IWARP_REMOTE_WRITE;
constexpr std::string_view kDigits = "0123456789abcdef";

static_assert(sizeof(iwarp_key) == kKeyOctets);
static_assert(IWARP_KEY_TEXT_OCTETS == 2 * kKeyOctets + 1);

std::uint32_t check_of(const std::uint8_t* key) {
  return crc32c_finish(crc32c_extend_portable(kCRC32CStart, {key, kCheckAt}));
}

int value_of(char digit) {
  if (digit >= 'A' && digit <= 'F') digit = static_cast<char>(digit - 'A' + 'a');
  const auto at = kDigits.find(digit);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

}  // namespace

std::array<std::uint8_t, kKeyOctets> encode_key(const RemoteMemory& memory) {
  std::array<std::uint8_t, kKeyOctets> key{};
  std::copy(kMagic.begin(), kMagic.end(), key.begin());
  key[4] = kKeyVersion;
  key[5] = static_cast<std::uint8_t>(memory.rights & kRights);
  store_be32(&key[8], memory.key);
  store_be64(&key[12], memory.address);
  store_be64(&key[20], memory.octets);
  store_be32(&key[kCheckAt], check_of(key.data()));
  return key;
}

Result<RemoteMemory> parse_key(Octets octets) {
  if (octets.size() != kKeyOctets || !std::equal(kMagic.begin(), kMagic.end(), octets.begin())) {
    return Error{EBADMSG, "no remote key"};
  }
  // Of another version all but the first five octets may mean something else.
  if (octets[4] != kKeyVersion) return Error{EPROTONOSUPPORT, "a key of another version"};
  if (load_be32(&octets[kCheckAt]) != check_of(octets.data())) {
    return Error{EBADMSG, "a damaged key"};
  }
  RemoteMemory memory;
  memory.rights = octets[5];
  memory.key = load_be32(&octets[8]);
  memory.address = load_be64(&octets[12]);
  memory.octets = load_be64(&octets[20]);
  if ((memory.rights & ~kRights) != 0 || memory.octets == 0 ||
      memory.address + (memory.octets - 1) < memory.address) {
    return Error{EBADMSG, "a key of memory that cannot be"};
  }
  return memory;
}

void key_to_text(Octets key, char* text) {
  for (const std::uint8_t octet : key) {
    *text++ = kDigits[octet >> 4];
    *text++ = kDigits[octet & 15];
  }
  *text = 0;
}

Result<std::array<std::uint8_t, kKeyOctets>> key_from_text(const char* text) {
  std::array<std::uint8_t, kKeyOctets> key;
  for (std::uint8_t& octet : key) {
    const int high = value_of(text[0]);
    // In this order: what lies behind the final 0 is not ours to read.
    const int low = high < 0 ? -1 : value_of(text[1]);
    if (low < 0) return Error{EBADMSG, "no key in hexadecimal digits"};
    octet = static_cast<std::uint8_t>(high << 4 | low);
    text += 2;
  }
  if (*text != 0) return Error{EBADMSG, "more than a key"};
  return key;
}

}  // namespace weft::sockets

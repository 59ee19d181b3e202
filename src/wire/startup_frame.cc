// MPA Request and Reply frames to octets and back.
#include "wire/startup_frame.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "base/byte_order.h"

namespace weft::wire {
namespace {

constexpr std::size_t kKeyOctets = 16;
using Key = std::array<std::uint8_t, kKeyOctets>;

// "MPA ID Req Frame" and "MPA ID Rep Frame" (RFC 5044 §7.1.1); no terminator on the wire.
constexpr Key kRequestKey = {0x4d, 0x50, 0x41, 0x20, 0x49, 0x44, 0x20, 0x52,
                             0x65, 0x71, 0x20, 0x46, 0x72, 0x61, 0x6d, 0x65};
constexpr Key kReplyKey = {0x4d, 0x50, 0x41, 0x20, 0x49, 0x44, 0x20, 0x52,
                           0x65, 0x70, 0x20, 0x46, 0x72, 0x61, 0x6d, 0x65};

// The flags octet; its low four bits are reserved: sent as 0, not looked at.
constexpr std::uint8_t kMarkersFlag = 0x80;
constexpr std::uint8_t kCRCFlag = 0x40;
constexpr std::uint8_t kRejectedFlag = 0x20;
constexpr std::uint8_t kEnhancedFlag = 0x10;

// The two enhanced words (RFC 6581 §9): two flags and 14 bits of depth each.
constexpr std::uint16_t kFirstFlag = 0x8000;
constexpr std::uint16_t kSecondFlag = 0x4000;
constexpr std::uint16_t kDepthMask = 0x3fff;

constexpr std::uint8_t flag(bool on, std::uint8_t bit) {
  return on ? bit : 0;
}

constexpr std::uint16_t word(bool first, bool second, std::uint16_t depth) {
  return static_cast<std::uint16_t>((first ? kFirstFlag : 0) | (second ? kSecondFlag : 0) |
                                    (depth & kDepthMask));
}

Enhanced parse_enhanced(const std::uint8_t* p) {
  const std::uint16_t first = load_be16(p);
  const std::uint16_t second = load_be16(p + 2);
  Enhanced enhanced;
  enhanced.ird = first & kDepthMask;
  enhanced.ord = second & kDepthMask;
  enhanced.peer_to_peer = (first & kFirstFlag) != 0;
  enhanced.rtr_send = (first & kSecondFlag) != 0;
  enhanced.rtr_write = (second & kFirstFlag) != 0;
  enhanced.rtr_read = (second & kSecondFlag) != 0;
  return enhanced;
}

void store_enhanced(std::uint8_t* p, const Enhanced& enhanced) {
  store_be16(p, word(enhanced.peer_to_peer, enhanced.rtr_send, enhanced.ird));
  store_be16(p + 2, word(enhanced.rtr_write, enhanced.rtr_read, enhanced.ord));
}

bool begins_like(Octets in, const Key& key) {
  const std::size_t octets = std::min(in.size(), kKeyOctets);
  return std::equal(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(octets), key.begin());
}

}  // namespace

std::size_t StartupFrame::octets() const {
  return kStartupHeaderOctets + (enhanced ? kEnhancedOctets : 0) + private_data.size();
}

std::size_t StartupFrame::encode(MutableOctets out) const {
  const bool fits = octets() <= kStartupFrameOctetsMax && out.size() >= octets();
  weft_assert(octets() <= kStartupFrameOctetsMax);
  weft_assert(out.size() >= octets());
  weft_assert(!enhanced || (enhanced->ird <= kDepthMask && enhanced->ord <= kDepthMask));
  if (!fits) return 0;  // the freestanding hook comes back

  std::uint8_t* p = out.data();
  const Key& key = kind == StartupKind::Request ? kRequestKey : kReplyKey;
  std::copy(key.begin(), key.end(), p);
  p[16] = static_cast<std::uint8_t>(flag(markers, kMarkersFlag) | flag(crc, kCRCFlag) |
                                    flag(rejected, kRejectedFlag) |
                                    flag(enhanced.has_value(), kEnhancedFlag));
  p[17] = revision;
  store_be16(p + 18, static_cast<std::uint16_t>(octets() - kStartupHeaderOctets));
  p += kStartupHeaderOctets;
  if (enhanced) {
    store_enhanced(p, *enhanced);
    p += kEnhancedOctets;
  }
  std::copy(private_data.begin(), private_data.end(), p);
  return octets();
}

std::variant<StartupFrame, NeedMore, StartupFault> parse_startup_frame(Octets in) {
  const bool request = begins_like(in, kRequestKey);
  if (!request && !begins_like(in, kReplyKey)) return StartupFault::BadKey;
  if (in.size() < kStartupHeaderOctets) return NeedMore{kStartupHeaderOctets};

  const std::uint8_t flags = in[16];
  const std::size_t data_octets = load_be16(in.data() + 18);
  const bool enhanced = (flags & kEnhancedFlag) != 0;
  // Judged before the private data is waited for: a length we would refuse must not hold a
  // connection open until its octets come.
  if (data_octets > kPrivateDataOctetsMax) return StartupFault::PrivateDataLength;
  if (enhanced && data_octets < kEnhancedOctets) return StartupFault::PrivateDataLength;
  if (in.size() < kStartupHeaderOctets + data_octets) {
    return NeedMore{kStartupHeaderOctets + data_octets};
  }

  StartupFrame frame;
  frame.kind = request ? StartupKind::Request : StartupKind::Reply;
  frame.markers = (flags & kMarkersFlag) != 0;
  frame.crc = (flags & kCRCFlag) != 0;
  frame.rejected = (flags & kRejectedFlag) != 0;
  frame.revision = in[17];
  frame.private_data = in.subspan(kStartupHeaderOctets, data_octets);
  if (enhanced) {
    frame.enhanced = parse_enhanced(frame.private_data.data());
    frame.private_data = frame.private_data.subspan(kEnhancedOctets);
  }
  return frame;
}

}  // namespace weft::wire

// FPDUs that are like the one before them: what a long tagged message is made of where the MSS is
// small. What can be judged once is judged once for all of them.
#include <algorithm>

#include "base/byte_order.h"
#include "core/qp/qp.h"

namespace weft::core {
namespace {

/// In front of TO: ULPDU_Length, the control octets of DDP and RDMAP, the STag.
constexpr std::size_t kSameOctets = 8;

/// How many of the FPDUs behind the first one are as long as it, of the same message by their
/// headers, and go on where the one before ended.
std::size_t count_alike(Octets arrived, std::size_t fpdu_octets, std::uint64_t to,
                        std::size_t payload, std::size_t most) {
  const std::uint64_t same = load_be64(arrived.data());
  std::size_t count = 0;
  for (const std::uint8_t* at = arrived.data() + fpdu_octets; count < most; at += fpdu_octets) {
    to += payload;
    if (load_be64(at) != same || load_be64(at + kSameOctets) != to) break;
    ++count;
  }
  return count;
}

}  // namespace

// `arrived` begins with an FPDU that was handled just now; `most` more are looked at. Returns how
// many of them were handled too: those at which nothing is wrong. What is behind them is found, and
// told of, by who looks at each.
std::size_t QP::handle_run(Octets arrived, std::size_t fpdu_octets, std::size_t most) {
  if (arrived.size() < 2 * fpdu_octets || deframer_.has_markers()) return 0;
  const std::size_t ulpdu_octets = load_be16(arrived.data());
  const Octets ulpdu = arrived.subspan(wire::kUlpduLengthOctets, ulpdu_octets);
  const std::optional<wire::DDPHeader> header = wire::DDPHeader::parse(ulpdu);
  if (!header || !header->tagged || header->last || state_ != QPState::RTS) return 0;
  const std::size_t payload = ulpdu_octets - wire::kTaggedHeaderOctets;
  if (payload == 0) return 0;
  most = std::min(most, arrived.size() / fpdu_octets - 1);

  const bool write = wire::rdmap_opcode(header->rdmap_control) == wire::Opcode::Write;
  if (!write) {  // a Read Response, whose end is where the Read's is
    const OpenRead& read = open_reads_.front();
    most = std::min<std::size_t>(most, (read.octets - read.received - 1) / payload);
  }
  const std::size_t count = count_alike(arrived, fpdu_octets, header->to, payload, most);
  if (count == 0) return 0;
  //= DDP-20 DDP-24 DDP-25 SEC-01 SEC-02 SEC-03 SEC-04
  const std::uint64_t to = header->to + payload, octets = std::uint64_t{count} * payload;
  const auto place = write ? check_remote(header->stag, to, octets, kRemoteWrite)
                           : memory_.check(header->stag, to, octets, kLocalWrite, requester());
  if (!place) return 0;

  constexpr std::size_t kHead = wire::kUlpduLengthOctets + wire::kTaggedHeaderOctets;
  std::size_t handled = 0;
  for (; handled < count; ++handled) {
    arrived = arrived.subspan(fpdu_octets);
    std::uint8_t* const target = *place + handled * payload;
    const Octets run = arrived.subspan(kHead, payload);
    if (!write && stream_.crc) {  // nobody but the peer's answer fills a sink
      Summed summed{kHead + payload, mover_.crc_extend(kCRC32CStart, arrived.first(kHead))};
      if (!mover_.place(target, run, &summed.crc)) break;
      //= MPA-16
      if (!deframer_.agrees(arrived.first(fpdu_octets), summed)) break;
    } else {
      //= MPA-16
      if (!deframer_.agrees(arrived.first(fpdu_octets))) break;
      const bool kept = write && stream_.crc && queues_.keep_write(header->stag, target, run);
      if (!kept && !put(target, run)) break;
    }
    deframer_.consume(fpdu_octets);
  }
  const auto placed = static_cast<std::uint32_t>(handled * payload);
  (write ? write_octets_ : open_reads_.front().received) += placed;
  return handled;
}

}  // namespace weft::core

// FPDU boundaries, markers and CRC on the receiving side.
#include "core/mpa/deframer.h"

#include <cstring>

#include "base/assert.h"
#include "base/crc32c.h"

namespace weft::core {
namespace {

/// Octets from `position` to the next marker position; 0 if a marker is due right there.
constexpr std::size_t octets_to_marker(std::uint32_t position) {
  return (wire::kMarkerInterval - position % wire::kMarkerInterval) % wire::kMarkerInterval;
}

/// Reads a list front to back: never returns to an earlier part, so any number of parts costs one
/// walk.
class ListReader {
 public:
  explicit ListReader(const OctetList& list) : parts_(list.parts) {}

  /// The next contiguous run, 1..octets_max octets; empty at the end of the list.
  Octets take(std::size_t octets_max) {
    while (part_ < parts_.size() && offset_ == parts_[part_].size()) {
      ++part_;
      offset_ = 0;
    }
    if (part_ == parts_.size() || octets_max == 0) return {};
    Octets run = parts_[part_].subspan(offset_);
    if (run.size() > octets_max) run = run.first(octets_max);
    offset_ += run.size();
    return run;
  }
  void skip(std::size_t octets) {
    while (octets > 0) {
      const Octets run = take(octets);
      if (run.empty()) return;
      octets -= run.size();
    }
  }
  /// False if the list ends before `out` is full.
  bool read(MutableOctets out) {
    while (!out.empty()) {
      const Octets run = take(out.size());
      if (run.empty()) return false;
      std::memcpy(out.data(), run.data(), run.size());
      out = out.subspan(run.size());
    }
    return true;
  }

 private:
  std::span<const Octets> parts_;
  std::size_t part_ = 0;
  std::size_t offset_ = 0;
};

/// Does every marker of an FPDU of `octets` octets (markers included) that starts at `position`
/// point at its length field? An FPDU of more than 65535 octets, which no sender may build, is
/// compared modulo 2^16, all that FPDUPTR can hold.
bool markers_agree(const OctetList& arrived, std::uint32_t position, std::size_t octets) {
  const std::size_t first = octets_to_marker(position);
  const std::size_t length_field = first == 0 ? wire::kMarkerOctets : 0;
  ListReader reader(arrived);
  reader.skip(first);
  for (std::size_t at = first; at < octets; at += wire::kMarkerInterval) {
    std::uint8_t marker[wire::kMarkerOctets];
    if (!reader.read(marker)) return false;
    const std::size_t pointer = at < length_field ? 0 : at - length_field;
    if (wire::load_marker(marker) != (pointer & 0xfffc)) return false;
    reader.skip(wire::kMarkerInterval - wire::kMarkerOctets);
  }
  return true;
}

bool crc_agrees(Mover& mover, const OctetList& arrived, std::size_t octets, const Summed& summed) {
  //= MPA-17
  // All that precedes the CRC field is covered, markers and PAD too. A marker that falls right
  // behind the field is not ours: `octets` ends before it.
  std::size_t covered = octets - wire::kCRCOctets - summed.octets;
  ListReader reader(arrived);
  reader.skip(summed.octets);
  std::uint32_t state = summed.crc;
  while (covered > 0) {
    const Octets run = reader.take(covered);
    if (run.empty()) return false;
    state = mover.crc_extend(state, run);
    covered -= run.size();
  }
  std::uint8_t field[wire::kCRCOctets];
  return reader.read(field) && load_crc(field) == crc32c_finish(state);
}

}  // namespace

UlpduCursor::UlpduCursor(OctetList arrived, std::size_t start, std::uint32_t position, bool markers,
                         std::size_t ulpdu_octets)
    : arrived_(arrived), offset_(start), position_(position), markers_(markers),
      left_(ulpdu_octets) {
  std::size_t before = wire::kUlpduLengthOctets;
  if (markers_ && octets_to_marker(position_) == 0) before += wire::kMarkerOctets;
  offset_ += before;
  position_ += static_cast<std::uint32_t>(before);
}

Octets UlpduCursor::next(std::size_t octets_max) {
  if (left_ == 0 || octets_max == 0) return {};
  if (markers_ && octets_to_marker(position_) == 0) {
    offset_ += wire::kMarkerOctets;
    position_ += wire::kMarkerOctets;
  }
  while (part_ < arrived_.parts.size() && offset_ >= arrived_.parts[part_].size()) {
    offset_ -= arrived_.parts[part_].size();
    ++part_;
  }
  weft_assert(part_ < arrived_.parts.size());
  if (part_ >= arrived_.parts.size()) return {};

  const Octets part = arrived_.parts[part_];
  std::size_t n = part.size() - offset_;
  if (n > left_) n = left_;
  if (n > octets_max) n = octets_max;
  if (markers_) {
    // The marker due here was passed above, so the distance is never 0.
    const std::size_t to_marker = octets_to_marker(position_);
    if (n > to_marker) n = to_marker;
  }
  const Octets run = part.subspan(offset_, n);
  offset_ += n;
  position_ += static_cast<std::uint32_t>(n);
  left_ -= n;
  return run;
}

void UlpduCursor::copy(MutableOctets out) {
  weft_assert(out.size() <= left_);
  while (!out.empty()) {
    const Octets run = next(out.size());
    if (run.empty()) return;
    std::memcpy(out.data(), run.data(), run.size());
    out = out.subspan(run.size());
  }
}

Deframer::Deframer(bool markers, bool crc, Mover* mover)
    : markers_(markers), crc_(crc), mover_(mover) {}

std::variant<ArrivedFPDU, FPDUNeeds, wire::TermError> Deframer::next(const OctetList& arrived,
                                                                     const Summed& summed) {
  //= MPA-28
  if (failed_) return failure_;

  //= MPA-23
  //= MPA-24
  // Boundaries come from the length field alone; how the octets were cut into segments, or into
  // pieces on their way here, means nothing.
  const std::size_t leading =
      markers_ && octets_to_marker(position_) == 0 ? wire::kMarkerOctets : 0;
  ListReader reader(arrived);
  reader.skip(leading);
  std::uint8_t length[wire::kUlpduLengthOctets];
  if (!reader.read(length)) return FPDUNeeds{stream_octets(0)};
  const std::size_t ulpdu = load_be16(length);
  const std::size_t octets = stream_octets(ulpdu);
  if (arrived.size() < octets) return FPDUNeeds{octets};

  //= MPA-26
  //= MPA-27
  if (markers_ && !markers_agree(arrived, position_, octets)) {
    return fail(wire::TermError::MPAMarker);
  }
  // One call per contiguous run, so a single arrived span costs a single pass.
  //= MPA-16
  //= MPA-18
  if (crc_ && !crc_agrees(*mover_, arrived, octets, summed)) return fail(wire::TermError::MPACRC);
  //= MPA-04
  return ArrivedFPDU{octets, UlpduCursor(arrived, 0, position_, markers_, ulpdu)};
}

void Deframer::consume(const ArrivedFPDU& fpdu) {
  position_ += static_cast<std::uint32_t>(fpdu.stream_octets);
}

std::size_t Deframer::stream_octets(std::size_t ulpdu_octets) const {
  const std::size_t bare = wire::fpdu_octets(ulpdu_octets);
  return markers_ ? bare + wire::kMarkerOctets * wire::marker_count(position_, bare) : bare;
}

wire::TermError Deframer::fail(wire::TermError error) {
  // The caller reports it and may still send (a Terminate): closing TCP is not ours to decide.
  //= MPA-29
  failed_ = true;
  failure_ = error;
  return error;
}

}  // namespace weft::core

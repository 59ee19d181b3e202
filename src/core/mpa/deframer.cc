// FPDU boundaries, markers and CRC on the receiving side.
#include "core/mpa/deframer.h"

#include <algorithm>
#include <cstring>
#include <optional>

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

/// The ULPDU_Length at `offset` octets from the front. Empty: it has not all arrived.
std::optional<std::uint16_t> length_at(const OctetList& arrived, std::size_t offset) {
  if (arrived.parts.empty()) return {};
  std::uint8_t length[wire::kUlpduLengthOctets];
  const Octets front = arrived.parts.front();
  if (front.size() >= offset + sizeof length) return load_be16(front.data() + offset);
  if (arrived.parts.size() == 1) return {};
  ListReader reader(arrived);
  reader.skip(offset);
  if (!reader.read(length)) return {};
  return load_be16(length);
}

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

//= MPA-17
// Of an FPDU in one run.
bool crc_agrees(Mover& mover, Octets fpdu, const Summed& summed) {
  const std::size_t covered = fpdu.size() - wire::kCRCOctets;
  const Octets sum = fpdu.subspan(summed.octets, covered - summed.octets);
  return load_crc(fpdu.data() + covered) == crc32c_finish(mover.crc_extend(summed.crc, sum));
}

bool crc_agrees(Mover& mover, const OctetList& arrived, std::size_t octets, const Summed& summed) {
  //= MPA-17
  // All that precedes the CRC field is covered, markers and PAD too. A marker that falls right
  // behind the field is not ours: `octets` ends before it.
  const Octets front = arrived.parts.front();
  if (front.size() >= octets) return crc_agrees(mover, front.first(octets), summed);
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

UlpduCursor::UlpduCursor(OctetList fpdu, std::uint32_t position, bool markers,
                         std::size_t ulpdu_octets)
    : behind_(fpdu.parts), position_(position), markers_(markers) {
  std::size_t before = wire::kUlpduLengthOctets;
  if (markers_ && octets_to_marker(position_) == 0) before += wire::kMarkerOctets;
  left_ = before;
  while (left_ > 0 && enter_piece()) pass(std::min(left_, here_.size()));
  left_ = ulpdu_octets;
}

// Makes the current part one of which something is left. False: the list is at its end.
bool UlpduCursor::enter_piece() {
  while (here_.empty()) {
    if (behind_.empty()) return false;
    here_ = behind_.front();
    behind_ = behind_.subspan(1);
  }
  return true;
}

Octets UlpduCursor::next_piece(std::size_t octets_max) {
  if (octets_max == 0) return {};
  if (markers_ && octets_to_marker(position_) == 0) {
    for (std::size_t marker = wire::kMarkerOctets; marker > 0 && enter_piece();) {
      const std::size_t n = std::min(marker, here_.size());
      here_ = here_.subspan(n);
      marker -= n;
    }
    position_ += wire::kMarkerOctets;
  }
  const bool whole = enter_piece();
  weft_assert(whole);
  if (!whole) return {};
  std::size_t n = std::min(octets_max, here_.size());
  // The marker due here was passed above, so the distance is never 0.
  if (markers_) n = std::min(n, octets_to_marker(position_));
  return pass(n);
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

void UlpduCursor::skip(std::size_t octets) {
  weft_assert(octets <= left_);
  while (octets > 0) {
    const Octets run = next(octets);
    if (run.empty()) return;
    octets -= run.size();
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
  const std::optional<std::uint16_t> ulpdu = length_at(arrived, leading);
  if (!ulpdu) return FPDUNeeds{stream_octets(0)};
  const std::size_t octets = stream_octets(*ulpdu);
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
  return ArrivedFPDU{octets, UlpduCursor(arrived, position_, markers_, *ulpdu)};
}

bool Deframer::next_whole(Octets arrived, ArrivedFPDU& fpdu) const {
  if (markers_ || arrived.size() < wire::kUlpduLengthOctets) return false;
  const std::size_t ulpdu = load_be16(arrived.data());
  const std::size_t octets = wire::fpdu_octets(ulpdu);
  if (arrived.size() < octets || !agrees(arrived.first(octets))) return false;
  fpdu = {octets, UlpduCursor(arrived.subspan(wire::kUlpduLengthOctets, ulpdu))};
  return true;
}

bool Deframer::agrees(Octets fpdu, const Summed& summed) const {
  //= MPA-28
  if (failed_) return false;
  return !crc_ || crc_agrees(*mover_, fpdu, summed);
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

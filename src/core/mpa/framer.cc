// FPDUs into a batch: length, markers, PAD and CRC.
#include "core/mpa/framer.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/crc32c.h"
#include "wire/ddp.h"

namespace weft::core {
namespace {

/// Copied payload from this size on is checksummed while it is copied; below, one CRC pass over the
/// staged run costs less than a call for what stands before the payload, and one for it. In a run,
/// where nothing else is done for each, the two calls are what is left.
constexpr std::size_t kFuseOctetsMin = 1024;
/// Payload of less is put together in one piece.
constexpr std::size_t kShortOctets = 8192;

std::size_t payload_octets(std::span<const PayloadPiece> payload) {
  std::size_t n = 0;
  for (const PayloadPiece& piece : payload) n += piece.octets;
  return n;
}

/// Writes the octets of one FPDU into staging and puts a marker wherever one is due.
class MarkerWriter {
 public:
  MarkerWriter(std::uint8_t* out, std::uint32_t position) : out_(out), position_(position) {}

  /// The next place to write to and how many octets fit there before the next marker.
  std::uint8_t* room(std::size_t* octets) {
    if (position_ % wire::kMarkerInterval == 0) put_marker();
    *octets = wire::kMarkerInterval - position_ % wire::kMarkerInterval;
    return out_;
  }
  void advance(std::size_t octets) {
    header_seen_ = true;
    distance_ += octets;
    out_ += octets;
    position_ += static_cast<std::uint32_t>(octets);
  }
  void put(Octets octets) {
    while (!octets.empty()) {
      std::size_t n = 0;
      std::uint8_t* const to = room(&n);
      if (n > octets.size()) n = octets.size();
      std::memcpy(to, octets.data(), n);
      advance(n);
      octets = octets.subspan(n);
    }
  }
  /// A marker due exactly here, before the CRC, is still this FPDU's.
  std::uint8_t* crc_place() {
    std::size_t n = 0;
    return room(&n);
  }

 private:
  void put_marker() {
    //= MPA-08
    //= MPA-11
    // `distance_` counts from the first octet of ULPDU_Length, so a marker that stands before it
    // (the FPDU's own leading one, MPA-12, and the very first of a stream, CON-16) has 0.
    //= MPA-12
    //= CON-16
    wire::store_marker(out_, static_cast<std::uint16_t>(distance_));
    if (header_seen_) distance_ += wire::kMarkerOctets;
    out_ += wire::kMarkerOctets;
    position_ += wire::kMarkerOctets;
  }

  std::uint8_t* out_;
  std::uint32_t position_;
  std::size_t distance_ = 0;  // from ULPDU_Length to out_, markers between included
  bool header_seen_ = false;
};

/// Copies one payload piece to staging. `state`: the CRC register to extend, or null.
bool copy_piece(Mover& mover, std::uint8_t* to, const PayloadPiece& piece, std::uint32_t* state,
                ReadBy read_by) {
  if (piece.octets == 0) return true;
  if (piece.registered) return mover.fetch(to, piece.data, piece.octets, state, read_by);
  std::memcpy(to, piece.data, piece.octets);
  if (state != nullptr) *state = mover.crc_extend(*state, Octets(to, piece.octets));
  return true;
}

/// The CRC of an FPDU that is staged front to back from `start` on.
class Sum {
 public:
  Sum(Mover& mover, bool on, const std::uint8_t* start, ReadBy read_by)
      : mover_(mover), on_(on), read_by_(read_by), uncovered_(start) {}

  /// Stages a piece of the payload. False: its memory is gone.
  bool copy(std::uint8_t* to, const PayloadPiece& piece) {
    if (!on_ || piece.octets < kFuseOctetsMin) {
      return copy_piece(mover_, to, piece, nullptr, read_by_);
    }
    cover(to);
    uncovered_ = to + piece.octets;
    return copy_piece(mover_, to, piece, &state_, read_by_);
  }
  /// A piece that is sent from where it lies, between what was staged before `at` and after it.
  bool refer(const PayloadPiece& piece, const std::uint8_t* at) {
    if (!on_) return true;
    cover(at);
    uncovered_ = at;
    if (piece.sum) {
      state_ = crc32c_append(state_, *piece.sum, piece.octets);
      return true;
    }
    return mover_.crc_registered(&state_, piece.data, piece.octets);
  }
  /// Behind all that is covered; zero without a CRC.
  void store(std::uint8_t* crc_place) {
    cover(crc_place);
    store_crc(crc_place, on_ ? crc32c_finish(state_) : 0);
  }

 private:
  void cover(const std::uint8_t* end) {
    if (!on_ || end == uncovered_) return;
    state_ =
        mover_.crc_extend(state_, Octets(uncovered_, static_cast<std::size_t>(end - uncovered_)));
  }

  Mover& mover_;
  const bool on_;
  const ReadBy read_by_;
  std::uint32_t state_ = kCRC32CStart;
  const std::uint8_t* uncovered_;  ///< staged octets from here on are not in it yet
};

/// Of an FPDU in one run of staging, whose length and header stand there: payload, PAD, CRC, which
/// `sum` takes from its first octet on. False: the payload's memory is gone.
bool fill_behind(std::uint8_t* start, std::size_t header_octets,
                 std::span<const PayloadPiece> payload, Sum& sum) {
  std::uint8_t* cursor = start + wire::kUlpduLengthOctets + header_octets;
  for (const PayloadPiece& piece : payload) {
    if (!sum.copy(cursor, piece)) return false;
    cursor += piece.octets;
  }
  const auto ulpdu = static_cast<std::size_t>(cursor - start) - wire::kUlpduLengthOctets;
  //= MPA-06
  std::uint8_t* const crc_place = start + wire::fpdu_octets(ulpdu) - wire::kCRCOctets;
  while (cursor != crc_place) *cursor++ = 0;
  //= MPA-13
  //= MPA-15
  sum.store(crc_place);
  return true;
}

}  // namespace

Framer::Framer(bool markers, bool crc, Mover* mover, std::size_t copy_below)
    : markers_(markers), crc_(crc), mover_(mover), copy_below_(copy_below) {}

Framed Framer::append(TransmitBatch& batch, Octets header, std::span<const PayloadPiece> payload,
                      bool snapshot) {
  //= MPA-01
  const std::size_t ulpdu = header.size() + payload_octets(payload);
  //= MPA-03
  weft_assert(ulpdu >= 1 && ulpdu <= wire::kMulpduMax);
  // A build whose assertion hook returns must not send a length that lies: the QP fails instead.
  if (ulpdu < 1 || ulpdu > wire::kMulpduMax) return Framed::MemoryGone;
  if (!batch.admits(wire::fpdu_octets(ulpdu))) return Framed::NoRoom;

  const TransmitBatch::Mark mark = batch.mark();
  const FPDU fpdu{header, payload, ulpdu, snapshot};
  //= MPA-09
  //= CON-04
  const Framed framed = markers_                          ? append_marked(batch, fpdu)
                        : is_short(ulpdu - header.size()) ? append_short(batch, fpdu)
                                                          : append_plain(batch, fpdu);
  if (framed != Framed::Done) {
    batch.rollback(mark);
    return framed;
  }
  position_ += static_cast<std::uint32_t>(batch.octets() - mark.octets);
  return framed;
}

std::uint8_t* Framer::begin(TransmitBatch& batch, std::size_t ulpdu_octets) {
  weft_assert(writes_through() && ulpdu_octets >= 1 && ulpdu_octets <= wire::kMulpduMax);
  if (!batch.admits(wire::fpdu_octets(ulpdu_octets))) return nullptr;
  std::uint8_t* const start = batch.reserve(wire::fpdu_octets(ulpdu_octets));
  if (start == nullptr) return nullptr;
  store_be16(start, static_cast<std::uint16_t>(ulpdu_octets));
  return start + wire::kUlpduLengthOctets;
}

bool Framer::finish(std::uint8_t* ulpdu, std::size_t header_octets, const PayloadPiece& payload,
                    ReadBy read_by) {
  std::uint8_t* const start = ulpdu - wire::kUlpduLengthOctets;
  Sum sum(*mover_, crc_, start, read_by);
  if (!fill_behind(start, header_octets, {&payload, 1}, sum)) return false;
  position_ += static_cast<std::uint32_t>(wire::fpdu_octets(header_octets + payload.octets));
  return true;
}

// What append_plain() makes of payload of which nothing is sent from where it lies: one run of
// staging, filled front to back.
Framed Framer::append_short(TransmitBatch& batch, const FPDU& fpdu) {
  //= MPA-07
  const std::size_t octets = wire::fpdu_octets(fpdu.ulpdu_octets);
  std::uint8_t* const start = batch.reserve(octets);
  if (start == nullptr) return Framed::NoRoom;
  store_be16(start, static_cast<std::uint16_t>(fpdu.ulpdu_octets));
  if (!fpdu.header.empty()) {
    std::memcpy(start + wire::kUlpduLengthOctets, fpdu.header.data(), fpdu.header.size());
  }
  Sum sum(*mover_, crc_, start, batch.read_by());
  const bool filled = fill_behind(start, fpdu.header.size(), fpdu.payload, sum);
  return filled ? Framed::Done : Framed::MemoryGone;
}

std::size_t Framer::append_run(TransmitBatch& batch, Octets header, const std::uint8_t* payload,
                               std::size_t octets, std::size_t count) {
  constexpr std::size_t kNumberOctets = 8, kSameOctetsMax = 12;
  static_assert(kSameOctetsMax + kNumberOctets ==
                wire::kUlpduLengthOctets + wire::kDDPHeaderOctetsMax);
  static_assert(wire::fpdu_octets(kNumberOctets) >= kSameOctetsMax);
  const bool fits = header.size() >= kNumberOctets && header.size() <= wire::kDDPHeaderOctetsMax;
  weft_assert(fits);
  if (!fits || markers_ || !is_short(octets)) return 0;
  const std::size_t ulpdu = header.size() + octets;
  const std::size_t size = wire::fpdu_octets(ulpdu);
  const std::size_t head = wire::kUlpduLengthOctets + header.size();
  const std::size_t same = head - kNumberOctets;
  count = std::min(count, batch.room_for(size));
  if (count == 0) return 0;
  const TransmitBatch::Mark mark = batch.mark();
  std::uint8_t* at = batch.reserve(count * size);
  if (at == nullptr) return 0;

  // Each header is that of the first but for its number, and each FPDU has 16 octets at least: what
  // is moved here is of fixed lengths, longer than need be. A string instruction for 16 octets
  // takes as long as the CRC of a kilobyte.
  std::uint8_t first[wire::kUlpduLengthOctets + wire::kDDPHeaderOctetsMax]{};
  store_be16(first, static_cast<std::uint16_t>(ulpdu));
  std::memcpy(first + wire::kUlpduLengthOctets, header.data(), header.size());
  std::uint64_t number = load_be64(first + same);
  const std::uint32_t same_state =
      crc_ ? mover_->crc_extend(kCRC32CStart, Octets(first, same)) : kCRC32CStart;
  std::size_t done = 0;
  for (; done < count; ++done, at += size, payload += octets) {
    number += octets;
    std::memcpy(at, first, kSameOctetsMax);
    store_be64(at + same, number);
    std::uint32_t state = same_state;
    if (crc_) state = mover_->crc_extend(state, Octets(at + same, kNumberOctets));
    if (!mover_->fetch(at + head, payload, octets, crc_ ? &state : nullptr, batch.read_by())) break;
    std::uint8_t* const cursor = at + head + octets;
    std::uint8_t* const crc_place = at + size - wire::kCRCOctets;
    if (cursor != crc_place) {
      std::memset(cursor, 0, wire::kCRCOctets);
      const std::size_t pad = static_cast<std::size_t>(crc_place - cursor);
      if (crc_) state = mover_->crc_extend(state, Octets(cursor, pad));
    }
    store_crc(crc_place, crc_ ? crc32c_finish(state) : 0);
  }
  if (done < count) {
    batch.rollback(mark);
    batch.reserve(done * size);
  }
  position_ += static_cast<std::uint32_t>(done * size);
  return done;
}

Framed Framer::append_plain(TransmitBatch& batch, const FPDU& fpdu) {
  // Two passes: first the layout, which is cheap and may find that there is no room, then the
  // octets and the CRC. Staging is handed out front to back, so one cursor finds the places again.
  const std::size_t head = wire::kUlpduLengthOctets + fpdu.header.size();
  const std::size_t pad = wire::pad_octets(fpdu.ulpdu_octets);
  std::uint8_t* cursor = batch.reserve(head);
  if (cursor == nullptr) return Framed::NoRoom;
  for (const PayloadPiece& piece : fpdu.payload) {
    const bool placed = copies(batch, piece, fpdu.snapshot)
                            ? batch.reserve(piece.octets) != nullptr
                        : fpdu.snapshot ? batch.lend(piece.data, piece.octets)
                                        : batch.reference(piece.data, piece.octets);
    if (!placed) return Framed::NoRoom;
  }
  //= MPA-07
  if (batch.reserve(pad + wire::kCRCOctets) == nullptr) return Framed::NoRoom;

  store_be16(cursor, static_cast<std::uint16_t>(fpdu.ulpdu_octets));
  if (!fpdu.header.empty()) {
    std::memcpy(cursor + wire::kUlpduLengthOctets, fpdu.header.data(), fpdu.header.size());
  }
  Sum sum(*mover_, crc_, cursor, batch.read_by());
  cursor += head;
  for (const PayloadPiece& piece : fpdu.payload) {
    if (copies(batch, piece, fpdu.snapshot)) {
      if (!sum.copy(cursor, piece)) return Framed::MemoryGone;
      cursor += piece.octets;
    } else {
      if (!sum.refer(piece, cursor)) return Framed::MemoryGone;
      if (fpdu.snapshot) cursor += piece.octets;  // past its shelter, which no CRC has to cover
    }
  }
  //= MPA-06
  std::memset(cursor, 0, pad);
  cursor += pad;
  //= MPA-13
  //= MPA-15
  sum.store(cursor);
  return Framed::Done;
}

Framed Framer::append_marked(TransmitBatch& batch, const FPDU& fpdu) {
  const std::size_t bare = wire::fpdu_octets(fpdu.ulpdu_octets);
  //= MPA-10
  const std::size_t octets = bare + wire::kMarkerOctets * wire::marker_count(position_, bare);
  std::uint8_t* const start = batch.reserve(octets);
  if (start == nullptr) return Framed::NoRoom;

  MarkerWriter writer(start, position_);
  std::uint8_t length[wire::kUlpduLengthOctets];
  store_be16(length, static_cast<std::uint16_t>(fpdu.ulpdu_octets));
  writer.put(length);
  writer.put(fpdu.header);
  for (PayloadPiece piece : fpdu.payload) {
    while (piece.octets > 0) {
      PayloadPiece run = piece;
      std::uint8_t* const to = writer.room(&run.octets);
      if (run.octets > piece.octets) run.octets = piece.octets;
      if (!copy_piece(*mover_, to, run, nullptr, ReadBy::ThisCore)) return Framed::MemoryGone;
      writer.advance(run.octets);
      piece.data += run.octets;
      piece.octets -= run.octets;
    }
  }
  constexpr std::uint8_t kZeros[3] = {};
  writer.put(Octets(kZeros, wire::pad_octets(fpdu.ulpdu_octets)));
  std::uint8_t* const crc_place = writer.crc_place();
  weft_assert(crc_place + wire::kCRCOctets == start + octets);
  // Everything that this FPDU put into the stream before its CRC field is covered: the marker right
  // before the length, the ones inside, PAD, and one that stands between PAD and CRC.
  //= MPA-17
  const std::size_t covered = octets - wire::kCRCOctets;
  store_crc(start + covered,
            crc_ ? crc32c_finish(mover_->crc_extend(kCRC32CStart, Octets(start, covered))) : 0);
  return Framed::Done;
}

bool Framer::is_short(std::size_t payload_octets) const {
  return payload_octets < kShortOctets && payload_octets < copy_below_;
}

bool Framer::copies(const TransmitBatch& batch, const PayloadPiece& piece, bool snapshot) const {
  return (snapshot && crc_) || batch.copies() || !piece.registered || piece.octets < copy_below_;
}

}  // namespace weft::core

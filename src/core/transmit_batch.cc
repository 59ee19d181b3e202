// The gather list under construction.
#include "core/transmit_batch.h"

#include <algorithm>

namespace weft::core {

TransmitBatch::TransmitBatch(MutableOctets staging, std::span<Piece> pieces, std::size_t octets_max,
                             std::size_t octets_bound, ReadBy read_by, bool copies)
    : staging_(staging),
      pieces_(pieces),
      octets_max_(std::min(octets_max, octets_bound)),
      octets_bound_(octets_bound),
      read_by_(read_by),
      copies_(copies) {}

std::uint8_t* TransmitBatch::reserve(std::size_t n) {
  if (n > staging_room()) return nullptr;
  std::uint8_t* const start = staging_.data() + staged_;
  // Staging is handed out front to back, so a staging piece at the end of the list always ends
  // where the next octets start: it only grows.
  const bool grow = piece_count_ > 0 && !pieces_[piece_count_ - 1].registered;
  if (!grow && n > 0) {
    if (piece_room() == 0) return nullptr;
    pieces_[piece_count_++] = Piece{start, 0, false};
  }
  if (n > 0) pieces_[piece_count_ - 1].octets += n;
  staged_ += n;
  octets_ += n;
  return start;
}

bool TransmitBatch::reference(const std::uint8_t* data, std::size_t n) {
  if (n == 0) return true;
  if (piece_room() == 0) return false;
  pieces_[piece_count_++] = Piece{data, n, true};
  octets_ += n;
  return true;
}

bool TransmitBatch::lend(const std::uint8_t* data, std::size_t n) {
  if (n == 0) return true;
  if (n > staging_room() || piece_room() == 0) return false;
  pieces_[piece_count_++] = Piece{data, n, true, staging_.data() + staged_};
  staged_ += n;
  octets_ += n;
  return true;
}

std::size_t TransmitBatch::room_for(std::size_t fpdu_octets) const {
  if (!admits(fpdu_octets)) return 0;
  const std::size_t begun = (octets_max_ - octets_ - 1) / fpdu_octets + 1;
  const std::size_t within = (octets_bound_ - octets_) / fpdu_octets;
  return std::min({begun, std::max<std::size_t>(within, 1), staging_room() / fpdu_octets});
}

TransmitBatch::Mark TransmitBatch::mark() const {
  return {staged_, piece_count_, piece_count_ > 0 ? pieces_[piece_count_ - 1].octets : 0, octets_};
}

void TransmitBatch::rollback(const Mark& mark) {
  staged_ = mark.staged;
  piece_count_ = mark.piece_count;
  octets_ = mark.octets;
  // The last piece that stays may have grown since the mark.
  if (piece_count_ > 0) pieces_[piece_count_ - 1].octets = mark.last_piece_octets;
}

void TransmitBatch::clear() {
  staged_ = 0;
  piece_count_ = 0;
  octets_ = 0;
}

bool keep_lent(std::span<Piece> pieces, std::size_t sent, Mover& mover, ReadBy read_by) {
  for (Piece& piece : pieces) {
    const std::size_t gone = sent < piece.octets ? sent : piece.octets;
    sent -= gone;
    if (piece.shelter == nullptr || gone == piece.octets) continue;
    const std::size_t left = piece.octets - gone;
    if (!mover.fetch(piece.shelter + gone, piece.data + gone, left, nullptr, read_by)) {
      return false;
    }
    piece = {piece.shelter, piece.octets};
  }
  return true;
}

}  // namespace weft::core

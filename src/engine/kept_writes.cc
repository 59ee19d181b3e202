// Pieces of a region that are not there yet: told apart by where they belong.
#include "engine/kept_writes.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace weft::engine {

bool KeptWrites::keep(std::uint8_t* target, Octets run, core::Mover& mover) {
  const auto all = std::span(pieces_).first(used_);
  const bool again = std::any_of(all.begin(), all.end(), [&](const Piece& piece) {
    return piece.target < target + run.size() && target < piece.end();
  });
  if (again) place(mover);  // what came first goes there first
  if (run.size() < kOctetsMin || used_ == pieces_.size()) return false;
  pieces_[used_] = {target, run};
  set_used(used_ + 1);
  return true;
}

void KeptWrites::place(core::Mover& mover) {
  for (const Piece& piece : std::span(pieces_).first(used_)) {
    // Who took the memory back does not read it.
    static_cast<void>(mover.place(piece.target, piece.octets, nullptr));
  }
  set_used(0);
}

/// Where the first octets of the region's `source` lie: those of one piece that is kept, or those
/// before the next that is.
Octets KeptWrites::find(Octets source) const {
  Octets from = source;
  for (const Piece& piece : std::span(pieces_).first(used_)) {
    if (piece.target <= source.data() && source.data() < piece.end()) {
      from = piece.octets.subspan(static_cast<std::size_t>(source.data() - piece.target));
      break;
    }
    if (source.data() < piece.target && piece.target < from.data() + from.size()) {
      from = source.first(static_cast<std::size_t>(piece.target - source.data()));
    }
  }
  return from.first(std::min(from.size(), source.size()));
}

bool KeptWrites::read(std::uint8_t* target, Octets source, bool peek, core::Mover& mover) {
  const std::uint8_t* const first = source.data();
  while (!source.empty()) {
    const Octets from = find(source);
    if (!mover.place(target, from, nullptr)) return false;
    target += from.size();
    source = source.subspan(from.size());
  }
  if (!peek) drop(first, source.data());
  return true;
}

void KeptWrites::peek(std::uint8_t* target, Octets source) const {
  while (!source.empty()) {
    const Octets from = find(source);
    std::memcpy(target, from.data(), from.size());
    target += from.size();
    source = source.subspan(from.size());
  }
}

void KeptWrites::drop(const std::uint8_t* first, const std::uint8_t* end) {
  std::size_t left = 0;
  for (Piece piece : std::span(pieces_).first(used_)) {
    if (first <= piece.target && piece.end() <= end) continue;
    if (first <= piece.target && piece.target < end) {
      const auto read = static_cast<std::size_t>(end - piece.target);
      piece = {piece.target + read, piece.octets.subspan(read)};
    }
    pieces_[left++] = piece;
  }
  set_used(left);
}

}  // namespace weft::engine

// What one poll_transmit() produced: a gather list for one sendmsg, built into borrowed memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/octets.h"
#include "core/host.h"

namespace weft::core {

/// One run of octets to send.
struct Piece {
  const std::uint8_t* data = nullptr;
  std::size_t octets = 0;
  bool registered = false;  ///< lies in registered memory, not in staging
  std::uint8_t* shelter = nullptr;  ///< room in staging for a copy of what is lent (keep_lent)
};

/// A gather list under construction. Headers, CRCs and small payloads are copied into `staging`;
/// large payloads are referenced where they lie, unless the batch copies them too.
///
/// Invariants: octets leave in the order of the calls; neighbouring staging octets share a Piece;
/// octets() is the sum over pieces().
/// Lifetime: staging and the piece array stay the caller's; references into registered memory stay
/// needed until the octets were sent.
class TransmitBatch {
 public:
  /// `octets_max`: no FPDU is begun once the batch holds this many octets. `octets_bound`: nor one,
  /// but the first, that would make it longer than this, markers not counted.
  /// `read_by`: what is likely of most of it. `copies`: large payloads too.
  TransmitBatch(MutableOctets staging, std::span<Piece> pieces, std::size_t octets_max,
                std::size_t octets_bound = SIZE_MAX, ReadBy read_by = ReadBy::ThisCore,
                bool copies = false);

  /// The next n octets of staging, as part of the gather list; the caller fills them.
  /// Null when staging or the list is full.
  std::uint8_t* reserve(std::size_t n);
  /// Appends n octets of registered memory. False when the list is full.
  bool reference(const std::uint8_t* data, std::size_t n);
  /// The same of memory that is the batch's only as long as the caller of poll_transmit holds it
  /// still: what is not sent by then goes into its shelter (keep_lent), for which n octets of
  /// staging are taken. False when staging or the list is full.
  bool lend(const std::uint8_t* data, std::size_t n);

  /// Where the batch stands, to drop a half-built FPDU again.
  struct Mark {
    std::size_t staged, piece_count, last_piece_octets, octets;
  };
  Mark mark() const;
  void rollback(const Mark&);
  void clear();

  std::span<const Piece> pieces() const { return pieces_.first(piece_count_); }
  std::size_t octets() const { return octets_; }
  ReadBy read_by() const { return read_by_; }
  bool copies() const { return copies_; }
  std::size_t staging_room() const { return staging_.size() - staged_; }
  std::size_t piece_room() const { return pieces_.size() - piece_count_; }
  bool full() const { return octets_ >= octets_max_; }
  /// May an FPDU of so many octets be begun?
  bool admits(std::size_t fpdu_octets) const {
    return !full() && (octets_ == 0 || fpdu_octets <= octets_bound_ - octets_);
  }
  /// How many FPDUs of so many octets, all of them in staging, may be begun one after the other.
  std::size_t room_for(std::size_t fpdu_octets) const;

 private:
  MutableOctets staging_;
  std::span<Piece> pieces_;
  std::size_t octets_max_, octets_bound_;
  ReadBy read_by_;
  bool copies_;
  std::size_t staged_ = 0;
  std::size_t piece_count_ = 0;
  std::size_t octets_ = 0;
};

/// Of a batch of which `sent` octets have left: what is lent of the rest is copied to its shelter,
/// and sent from there. False: the memory was unmapped, and the rest cannot be sent.
bool keep_lent(std::span<Piece> pieces, std::size_t sent, Mover& mover, ReadBy);

}  // namespace weft::core

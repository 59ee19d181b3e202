// Receiving FPDUs in order: boundaries by length, markers removed, CRC judged (RFC 5044 §4, §6).
#pragma once

#include <cstdint>
#include <cstring>
#include <variant>

#include "base/crc32c.h"
#include "base/octet_list.h"
#include "core/host.h"
#include "wire/ddp.h"
#include "wire/fpdu.h"
#include "wire/terminate.h"

namespace weft::core {

/// Walks the ULPDU octets of one FPDU, piece by piece, markers left out. Borrowed from the arrived
/// octets: valid as long as they are.
class UlpduCursor {
 public:
  UlpduCursor() = default;
  /// `position`: stream position of the first octet of `fpdu`, with which the list begins (a
  /// leading marker included). `ulpdu_octets` octets of ULPDU follow the length field.
  UlpduCursor(OctetList fpdu, std::uint32_t position, bool markers, std::size_t ulpdu_octets);
  /// Of a stream without markers: the whole ULPDU, in one run.
  explicit UlpduCursor(Octets ulpdu) : here_(ulpdu), left_(ulpdu.size()) {}

  std::size_t octets_left() const { return left_; }
  /// The next contiguous piece, at most octets_max octets; empty only when nothing is left.
  Octets next(std::size_t octets_max) {
    const std::size_t n = octets_max < left_ ? octets_max : left_;
    // Mostly nothing lies between here and there.
    return !markers_ && n <= here_.size() ? pass(n) : next_piece(n);
  }
  /// Copies the next out.size() octets (octets_left() must be at least that) and passes them.
  void copy(MutableOctets out);
  /// The same without passing them.
  void peek(MutableOctets out) const {
    if (markers_ || out.size() > here_.size()) return UlpduCursor(*this).copy(out);
    // As a rule that is the longest DDP header, which takes three moves where its length is known.
    if (out.size() == wire::kDDPHeaderOctetsMax) {
      std::memcpy(out.data(), here_.data(), wire::kDDPHeaderOctetsMax);
    } else {
      std::memcpy(out.data(), here_.data(), out.size());
    }
  }
  /// What can be peeked at to see a DDP header whole, and lies in staging: behind a header that
  /// ends there may be a place that a program can take back.
  std::size_t header_octets() const {
    if (markers_ || here_.empty() || here_.size() >= wire::kDDPHeaderOctetsMax) {
      return wire::kDDPHeaderOctetsMax;
    }
    const bool tagged = (here_.front() & wire::kTaggedBit) != 0;
    return tagged ? wire::kTaggedHeaderOctets : wire::kUntaggedHeaderOctets;
  }
  /// Passes so many octets (octets_left() must be at least that).
  void skip(std::size_t octets);

 private:
  Octets next_piece(std::size_t octets_max);
  bool enter_piece();
  Octets pass(std::size_t octets) {
    const Octets run = here_.first(octets);
    here_ = here_.subspan(octets);
    position_ += static_cast<std::uint32_t>(octets);
    left_ -= octets;
    return run;
  }

  Octets here_;  // the rest of the current part, and the parts behind it
  std::span<const Octets> behind_;
  std::uint32_t position_ = 0;  // stream position of the current octet
  bool markers_ = false;
  std::size_t left_ = 0;
};

/// One FPDU found whole at the front of the arrived octets.
struct ArrivedFPDU {
  std::size_t stream_octets = 0;  ///< with markers, PAD and CRC: what to consume
  UlpduCursor ulpdu;
};
/// Not whole yet: in all this many octets are needed to go on (a lower bound until the length is
/// known, then exact).
struct FPDUNeeds {
  std::size_t octets_total = 0;
};
/// The first octets of an FPDU whose CRC was taken when they arrived.
struct Summed {
  std::size_t octets = 0;
  std::uint32_t crc = kCRC32CStart;  ///< the register after them
};

/// The receiving half of MPA for one direction of one connection.
///
/// It keeps a stream position and no octets: the engine keeps the tail of an unfinished FPDU and
/// offers it again, in as many pieces as it likes. A later second input (a segment ahead of a gap)
/// would get its own method with a stream position; nothing here assumes next() to be the only one.
/// After an error it delivers nothing more (MPA-28).
class Deframer {
 public:
  Deframer() = default;
  Deframer(bool markers, bool crc, Mover* mover);

  /// Looks at the front of `arrived` (which begins at stream position position()). Judges, in this
  /// order: length (a ULPDU of 0 octets or beyond any MULPDU is for DDP to refuse, not for MPA),
  /// markers against the length field (MPA-27), CRC. Pure but for the error latch: the position
  /// moves by consume(). `summed`: of the FPDU at the front, if it is whole.
  std::variant<ArrivedFPDU, FPDUNeeds, wire::TermError> next(const OctetList& arrived,
                                                             const Summed& summed = {});
  /// What next() would say of an FPDU that is all in this one run, in a stream without markers, and
  /// that nothing is wrong with. False: next() has to look.
  bool next_whole(Octets arrived, ArrivedFPDU& fpdu) const;
  /// Passes an FPDU that next() or next_whole() found, or that agrees().
  void consume(std::size_t stream_octets) {
    position_ += static_cast<std::uint32_t>(stream_octets);
  }
  /// An FPDU that is whole and begins at position(), in a stream without markers: has it the CRC
  /// that it should have? False says only that next() has to judge it.
  bool agrees(Octets fpdu, const Summed& summed = {}) const;
  bool has_markers() const { return markers_; }
  std::uint32_t position() const { return position_; }

 private:
  /// Octets in the stream, markers included, of an FPDU that starts at position().
  std::size_t stream_octets(std::size_t ulpdu_octets) const;
  wire::TermError fail(wire::TermError);

  bool markers_ = false;
  bool crc_ = true;
  Mover* mover_ = nullptr;
  std::uint32_t position_ = 0;
  bool failed_ = false;
  wire::TermError failure_{};
};

}  // namespace weft::core

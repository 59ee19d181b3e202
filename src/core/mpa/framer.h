// Sending FPDUs: length, markers, PAD, CRC, built into a TransmitBatch (RFC 5044 §4).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/octets.h"
#include "core/host.h"
#include "core/transmit_batch.h"
#include "wire/fpdu.h"

namespace weft::core {

/// One run of payload in registered (or, for inline data, engine-owned) memory, already checked.
struct PayloadPiece {
  const std::uint8_t* data = nullptr;
  std::size_t octets = 0;
  bool registered = true;  ///< false: ring or staging memory, which cannot vanish
  std::optional<std::uint32_t> sum = {};  ///< CRC32C register after it, from 0, if that is known
};

enum class Framed : std::uint8_t {
  Done,
  NoRoom,      ///< the batch does not admit it, and is as before the call
  MemoryGone,  ///< registered memory was unmapped; the batch is as before the call
};

/// The sending half of MPA for one direction of one connection.
class Framer {
 public:
  Framer() = default;
  /// `copy_below`: payload pieces shorter than this are copied into staging, longer ones are
  /// referenced in place (unless markers are on, or the batch copies: then always copied).
  Framer(bool markers, bool crc, Mover* mover, std::size_t copy_below);

  /// Appends one FPDU: `header` (DDP header and any fixed RDMAP header) followed by `payload`.
  /// header.size() + payload octets must be 1..kMulpduMax, else asserts. `snapshot`: the CRC and
  /// the octets sent must agree even if the program writes to the payload meanwhile (a Read
  /// Response serves memory its owner may change at any time), so copy. With CRC off nothing has to
  /// agree: long payload is lent.
  /// With CRC off the CRC field holds zeros. With markers, inserts them at every 512th octet of the
  /// stream position and lets the CRC cover them.
  Framed append(TransmitBatch&, Octets header, std::span<const PayloadPiece> payload,
                bool snapshot);
  /// An FPDU whose ULPDU of so many octets, 1..kMulpduMax, begins where this says: the caller
  /// writes its header there, and then calls finish(). Null: the batch does not admit it, and is as
  /// before the call. Only if writes_through().
  std::uint8_t* begin(TransmitBatch&, std::size_t ulpdu_octets);
  /// The header is written there: payload, PAD, CRC. False: the payload's memory is gone, and the
  /// batch is for the caller to roll back.
  bool finish(std::uint8_t* ulpdu, std::size_t header_octets, const PayloadPiece& payload, ReadBy);
  /// No markers: the octets of an FPDU lie side by side.
  bool writes_through() const { return !markers_; }
  /// Appends FPDUs that go on where one with `header`, a DDP header alone, and `octets` octets of
  /// payload ended: the number that the header ends with (TO; MO, in front of it MSN) goes up by
  /// `octets` from one to the next. Their payload lies in registered memory from `payload` on.
  /// Returns how many were appended: `count`, or as many as fit, or those before memory that is
  /// gone, or none where append() has to look at each (long payload, markers).
  std::size_t append_run(TransmitBatch&, Octets header, const std::uint8_t* payload,
                         std::size_t octets, std::size_t count);
  /// Stream position of the next octet (RFC 5044 §4.3), modulo 2^32.
  std::uint32_t position() const { return position_; }

 private:
  /// One call's arguments.
  struct FPDU {
    Octets header;
    std::span<const PayloadPiece> payload;
    std::size_t ulpdu_octets;
    bool snapshot;
  };
  // Each may leave a half-built FPDU in the batch when they fail: append() rolls it back.
  Framed append_short(TransmitBatch&, const FPDU&);
  Framed append_plain(TransmitBatch&, const FPDU&);
  Framed append_marked(TransmitBatch&, const FPDU&);
  bool is_short(std::size_t payload_octets) const;
  bool copies(const TransmitBatch&, const PayloadPiece&, bool snapshot) const;

  bool markers_ = false;
  bool crc_ = true;
  Mover* mover_ = nullptr;
  std::size_t copy_below_ = 0;
  std::uint32_t position_ = 0;
};

}  // namespace weft::core

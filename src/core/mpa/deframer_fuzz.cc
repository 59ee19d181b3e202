// Any stream in any pieces: what comes out must not depend on the split, stays within the stream,
// and stops at the first error. With bit 2 of the first octet set, the CRC check passes always, so
// that what lies behind it is reached.
//
// Input: flags, seed of the splits, then the stream.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <vector>

#include "base/crc32c.h"
#include "core/mpa/deframer.h"

namespace {

using namespace weft;
using namespace weft::core;
using Bytes = std::vector<std::uint8_t>;

void require(bool held) {
  if (!held) std::abort();
}

class PlainMover final : public Mover {
 public:
  std::uint32_t crc_extend(std::uint32_t state, Octets data) override {
    return crc32c_extend_portable(state, data);
  }
  bool crc_registered(std::uint32_t*, const std::uint8_t*, std::size_t) override { return false; }
  bool fetch(std::uint8_t*, const std::uint8_t*, std::size_t, std::uint32_t*, ReadBy) override {
    return false;
  }
  bool place(std::uint8_t*, Octets, std::uint32_t*) override { return false; }
  bool update(std::uint8_t*, const AtomicChange&, std::uint64_t*) override { return false; }
};

struct Outcome {
  std::vector<Bytes> ulpdus;
  std::vector<std::size_t> stream_octets;
  std::optional<wire::TermError> error;
  bool operator==(const Outcome&) const = default;
};

/// Offers the stream as an engine would: some octets arrive, what is whole is consumed, the tail is
/// kept and offered again, cut up anew. `step_max` 0: all at once, in one piece.
Outcome run(Octets stream, bool markers, bool crc, std::size_t step_max, std::uint64_t seed) {
  PlainMover mover;
  Deframer deframer(markers, crc, &mover);
  std::mt19937_64 random(seed);
  Outcome outcome;
  std::size_t begin = 0, end = step_max == 0 ? stream.size() : 0;
  for (;;) {
    const Octets tail = stream.subspan(begin, end - begin);
    const Bytes copy(tail.begin(), tail.end());  // in memory of exactly that size
    std::vector<Octets> views;
    for (Octets left = copy; !left.empty();) {
      const std::size_t n = step_max == 0 ? left.size()
                                          : std::min<std::size_t>(random() % (step_max + 1),
                                                                  left.size());
      views.push_back(left.first(n));
      left = left.subspan(n);
    }
    const auto result = deframer.next(OctetList{views});
    if (const auto* error = std::get_if<wire::TermError>(&result)) {
      require(*error == wire::TermError::MPACRC || *error == wire::TermError::MPAMarker);
      outcome.error = *error;
      const auto again = deframer.next(OctetList{views});
      require(std::get_if<wire::TermError>(&again) != nullptr);
      return outcome;
    }
    if (const auto* needs = std::get_if<FPDUNeeds>(&result)) {
      require(needs->octets_total > tail.size());
      require(needs->octets_total <= 65535 + 9 + 4 * 130);
      if (end == stream.size()) return outcome;
      // Long streams come faster, or one run would take seconds.
      end = std::min(stream.size(), end + 1 + random() % (step_max + stream.size() / 32));
      continue;
    }
    const ArrivedFPDU& fpdu = *std::get_if<ArrivedFPDU>(&result);
    require(fpdu.stream_octets >= 8 && fpdu.stream_octets <= tail.size());
    require(fpdu.stream_octets % 4 == 0);
    UlpduCursor cursor = fpdu.ulpdu;
    Bytes ulpdu;
    while (cursor.octets_left() > 0) {
      const Octets piece = cursor.next(1 + random() % 700);
      require(!piece.empty());
      ulpdu.insert(ulpdu.end(), piece.begin(), piece.end());
    }
    outcome.ulpdus.push_back(ulpdu);
    outcome.stream_octets.push_back(fpdu.stream_octets);
    deframer.consume(fpdu.stream_octets);
    begin += fpdu.stream_octets;
  }
}

/// Corrects the CRC of every FPDU that can be found, so that mutated streams get past the check.
void correct_crcs(Bytes& stream, bool markers) {
  PlainMover mover;
  Deframer finder(markers, false, &mover);
  std::size_t at = 0;
  for (;;) {
    const Octets part = Octets(stream).subspan(at);
    const auto result = finder.next(OctetList{{&part, 1}});
    const auto* fpdu = std::get_if<ArrivedFPDU>(&result);
    if (fpdu == nullptr) return;
    const std::size_t covered = fpdu->stream_octets - wire::kCRCOctets;
    store_crc(stream.data() + at + covered,
              crc32c_finish(crc32c_extend_portable(kCRC32CStart, part.first(covered))));
    finder.consume(fpdu->stream_octets);
    at += fpdu->stream_octets;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const bool markers = (data[0] & 1) != 0, crc = (data[0] & 2) != 0;
  Bytes stream(data + 2, data + size);
  if ((data[0] & 4) != 0) correct_crcs(stream, markers);
  const Outcome whole = run(stream, markers, crc, 0, 0);
  require(whole == run(stream, markers, crc, 1 + data[0] / 8u, data[1]));
  if (size < 600) require(whole == run(stream, markers, crc, 1, data[1]));
  return 0;
}

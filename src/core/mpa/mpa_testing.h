// What the tests of the framer and the deframer share: a mover over plain memory, the worked
// examples, and a second, slow writer of FPDU streams to compare with. Test code only.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/octets.h"
#include "core/host.h"
#include "core/transmit_batch.h"
#include "tests/support/hex.h"

namespace weft::core::testing {

using Bytes = std::vector<std::uint8_t>;

/// Moves octets within the test's own memory. Memory in [gone, gone + gone_octets) is unmapped.
class TestMover final : public Mover {
 public:
  std::uint32_t crc_extend(std::uint32_t state, Octets data) override {
    ++crc_calls;
    return crc32c_extend_portable(state, data);
  }
  bool crc_registered(std::uint32_t* state, const std::uint8_t* source,
                      std::size_t octets) override {
    if (is_gone(source, octets)) return false;
    *state = crc32c_extend_portable(*state, Octets(source, octets));
    return true;
  }
  bool fetch(std::uint8_t* target, const std::uint8_t* source, std::size_t octets,
             std::uint32_t* state, ReadBy read_by) override {
    if (is_gone(source, octets)) return false;
    readers.insert(read_by);
    std::memcpy(target, source, octets);
    if (state != nullptr) *state = crc32c_extend_portable(*state, Octets(target, octets));
    return true;
  }
  bool place(std::uint8_t* target, Octets source, std::uint32_t* state) override {
    if (is_gone(target, source.size())) return false;
    std::memcpy(target, source.data(), source.size());
    if (state != nullptr) *state = crc32c_extend_portable(*state, source);
    return true;
  }
  bool update(std::uint8_t*, const AtomicChange&, std::uint64_t*) override { return false; }

  const std::uint8_t* gone = nullptr;
  std::size_t gone_octets = 0;
  int crc_calls = 0;
  std::set<ReadBy> readers;  ///< of what was fetched

 private:
  bool is_gone(const std::uint8_t* p, std::size_t octets) const {
    return gone != nullptr && p < gone + gone_octets && gone < p + octets;
  }
};

/// All that a batch would send, in order.
inline Bytes octets_of(const TransmitBatch& batch) {
  Bytes all;
  for (const Piece& piece : batch.pieces()) {
    all.insert(all.end(), piece.data, piece.data + piece.octets);
  }
  return all;
}

/// An independent sender: one octet after the other, the CRC bit by bit, and a marker looked for at
/// every octet. It knows nothing of the code under test but the position it starts at.
class SlowSender {
 public:
  SlowSender(bool markers, bool crc) : markers_(markers), crc_(crc) {}

  Bytes fpdu(const Bytes& ulpdu) {
    out_.clear();
    header_at_ = -1;
    put(static_cast<std::uint8_t>(ulpdu.size() / 256));
    put(static_cast<std::uint8_t>(ulpdu.size() % 256));
    for (const std::uint8_t octet : ulpdu) put(octet);
    for (std::size_t n = ulpdu.size() + 2; n % 4 != 0; ++n) put(0);
    marker_if_due();
    const std::uint32_t sum = crc_ ? crc() : 0;
    for (int i = 0; i < 4; ++i) out_.push_back(static_cast<std::uint8_t>(sum >> 8 * i));
    position += static_cast<std::uint32_t>(out_.size());
    return out_;
  }

  std::uint32_t position = 0;

 private:
  void put(std::uint8_t octet) {
    marker_if_due();
    if (header_at_ < 0) header_at_ = static_cast<long>(out_.size());
    out_.push_back(octet);
  }
  void marker_if_due() {
    if (!markers_ || (position + out_.size()) % 512 != 0) return;
    const long back = header_at_ < 0 ? 0 : static_cast<long>(out_.size()) - header_at_;
    out_.push_back(0);
    out_.push_back(0);
    out_.push_back(static_cast<std::uint8_t>(back / 256));
    out_.push_back(static_cast<std::uint8_t>(back % 256));
  }
  std::uint32_t crc() const {
    std::uint32_t r = 0xffffffff;
    for (const std::uint8_t octet : out_) {
      r ^= octet;
      for (int bit = 0; bit < 8; ++bit) r = (r & 1) != 0 ? r >> 1 ^ 0x82f63b78u : r >> 1;
    }
    return ~r;
  }

  bool markers_;
  bool crc_;
  Bytes out_;
  long header_at_ = -1;
};

inline Bytes random_octets(std::mt19937_64& random, std::size_t n) {
  Bytes octets(n);
  for (std::uint8_t& octet : octets) octet = static_cast<std::uint8_t>(random());
  return octets;
}

/// One worked example: the ULPDU is what the DDP layer hands over, the FPDU what is on the wire.
struct Example {
  const char* name;
  Bytes ulpdu;
  Bytes fpdu;
};

namespace detail {

inline Bytes repeated(std::uint8_t octet, std::size_t n) { return Bytes(n, octet); }

/// An example without markers, read off its FPDU.
inline Example plain(const char* name, const char* text) {
  const Bytes fpdu = weft::test::hex(text);
  const std::size_t n = static_cast<std::size_t>(fpdu[0]) * 256 + fpdu[1];
  return {name, Bytes(fpdu.begin() + 2, fpdu.begin() + 2 + static_cast<std::ptrdiff_t>(n)), fpdu};
}

}  // namespace detail

/// A3..A10 and B3..B11: each stands alone.
inline std::vector<Example> plain_examples() {
  using detail::plain;
  return {
      plain("A3", "00234143 00000000 00000000 00000001 00000000 68656c6c 6f206977 61727020"
                  "776f726c 64000000 9d27ef3d"),
      plain("A4", "0014c140 00112233 00000000 00001000 77726974 65210000 d376b3de"),
      plain("A5", "00164146 00112233 00000000 00000001 00000000 646f6e65 46f6a710"),
      plain("A6", "002e4141 00000000 00000001 00000001 00000000 0000aa01 00000000 00002000"
                  "00000008 0000bb02 00007f00 00001000 3863faf1"),
      plain("A7", "0016c142 0000aa01 00000000 00002000 72656164 64617461 5dbf5691"),
      plain("A8a", "001d0143 00000000 00000000 00000002 00000000 66697273 742d7061 72742d00"
                   "17e250b4"),
      plain("A8b", "001d4143 00000000 00000000 00000002 0000000b 7365636f 6e642d70 61727400"
                   "5c57fb00"),
      plain("A9", "002e4141 00000000 00000001 00000002 00000000 0000aa01 00000000 00002000"
                  "00001000 0000bb02 00007f00 00001000 c552e4ce"),
      plain("A10", "00464147 00000000 00000002 00000001 00000000 0101e000 002e4141 00000000"
                   "00000001 00000002 00000000 0000aa01 00000000 00002000 00001000 0000bb02"
                   "00007f00 00001000 ba7941ee"),
      plain("B3", "002e4141 00000000 00000001 00000001 00000000 00000001 00000000 00000000"
                  "00000000 00000001 00000000 00000000 27dbd7e7"),
      plain("B4", "000ec142 00000001 00000000 00000000 21a3e83e"),
      plain("B5", "001a4148 00000000 00000000 00000001 00000000 01020304 05060708 06c22805"),
      plain("B6", "0046414a 00000000 00000001 00000002 00000000 00000000 c0ffee01 0000bb02"
                  "00007f00 00001008 00000000 00000005 00000000 00000000 00000000 00000000"
                  "ffffffff ffffffff 435cf14c"),
      plain("B7", "001e414b 00000000 00000003 00000001 00000000 c0ffee01 00000000 00000025"
                  "7efc26a0"),
      plain("B8", "0046414a 00000000 00000001 00000003 00000000 00000002 c0ffee02 0000bb02"
                  "00007f00 00001008 00000000 00000063 ffffffff ffffffff 00000000 0000002a"
                  "ffffffff ffffffff 9a5f5917"),
      plain("B9", "001e414b 00000000 00000003 00000002 00000000 c0ffee02 00000000 0000002a"
                  "92a8b707"),
      plain("B10", "0022c140 00dead00 00000000 00000010 78787878 78787878 78787878 78787878"
                   "78787878 dd12933a"),
      plain("B11", "00264147 00000000 00000002 00000001 00000000 1100c000 0022c140 00dead00"
                   "00000000 00000010 f8ab3d2d"),
  };
}

/// C1, C3..C8: one direction with markers, in this order from position 0.
inline std::vector<Example> marker_examples() {
  using detail::repeated;
  using weft::test::hex;
  using weft::test::join;
  const Bytes send1 = hex("4143 00000000 00000000 00000001 00000000");
  const Bytes write4 = hex("c140 00112233 00000000 00000000");
  const Bytes write6 = hex("c140 00112233 00000000 00000400");
  const Bytes write7 = hex("c140 00112233 00000000 00001000");
  Bytes ramp(1400);
  for (std::size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<std::uint8_t>(i);
  const Bytes c7 = join({write7, ramp});
  const auto cut = [&](std::size_t from, std::size_t to) {
    return Bytes(c7.begin() + static_cast<std::ptrdiff_t>(from),
                 c7.begin() + static_cast<std::ptrdiff_t>(to));
  };
  return {
      {"C1", join({send1, repeated(0x11, 464)}),
       join({hex("00000000 01e2"), send1, repeated(0x11, 464), hex("027a7f30")})},
      {"C3", join({hex("4143 00000000 00000000 00000002 00000000"), repeated(0, 24)}),
       hex("002a4143 00000000 00000000 00000002 00000000 00000014 00000000 00000000 00000000"
           "00000000 00000000 00000000 84925898")},
      {"C4", join({write4, repeated(0x22, 460)}),
       join({hex("01da"), write4, repeated(0x22, 460), hex("b1fd4f60")})},
      {"C5", join({hex("c140 00112233 00000000 00000200"), repeated(0x33, 16)}),
       hex("00000000 001ec140 00112233 00000000 00000200 33333333 33333333 33333333 33333333"
           "da6db684")},
      {"C6", join({write6, repeated(0x44, 453)}),
       join({hex("01d3"), write6, repeated(0x44, 453), hex("000000 000001d8 8a10ba94")})},
      // Markers at stream positions 2048 and 2560, 0x1f8 and 0x3f8 octets behind the length field.
      {"C7", c7,
       join({hex("0586"), cut(0, 0x1f6), hex("000001f8"), cut(0x1f6, 0x3f2), hex("000003f8"),
             cut(0x3f2, c7.size()), hex("9fe6368e")})},
      {"C8", hex("4147 00000000 00000002 00000001 00000000 20020000"),
       hex("00164147 00000000 00000002 00000001 00000000 20020000 7fe42585")},
  };
}

/// C2: the first FPDU the other way, and RFC 5044 figure 5.
inline Example first_marker_example() {
  using weft::test::hex;
  return {"C2", weft::test::join({hex("4143 00000000 00000000 00000001 00000000"), Bytes(24)}),
          hex("00000000 002a4143 00000000 00000000 00000001 00000000 00000000 00000000 00000000"
              "00000000 00000000 00000000 52239983")};
}

}  // namespace weft::core::testing

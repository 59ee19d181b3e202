// CRC32C by table, eight octets a step. Freestanding: plain integer arithmetic, constant tables.
#include <array>
#include <bit>
#include <cstddef>

#include "base/crc32c.h"

namespace weft {
namespace {

constexpr std::size_t kSlices = 8;
//= MPA-13
/// 0x11EDC6F41 without its top bit and with the bits reversed: the register shifts right.
constexpr std::uint32_t kPolynomial = 0x82f63b78u;

using Table = std::array<std::uint32_t, 256>;

/// Table k gives what an octet leaves in the register after it and k further zero octets.
constexpr std::array<Table, kSlices> make_tables() {
  std::array<Table, kSlices> tables{};
  for (std::uint32_t octet = 0; octet < 256; ++octet) {
    std::uint32_t state = octet;
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) ? kPolynomial : 0);
    tables[0][octet] = state;
  }
  for (std::size_t k = 1; k < kSlices; ++k) {
    for (std::size_t octet = 0; octet < 256; ++octet) {
      const std::uint32_t before = tables[k - 1][octet];
      tables[k][octet] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr std::array<Table, kSlices> kTables = make_tables();
static_assert(kTables[0][1] == 0xf26b8303u && kTables[0][128] == kPolynomial);

std::uint32_t step8(std::uint32_t state, const std::uint8_t* p) {
  // The register meets the first four octets only; the other four enter as they are.
  const std::uint32_t low = state ^ load_crc(p);
  return kTables[7][low & 0xff] ^ kTables[6][(low >> 8) & 0xff] ^ kTables[5][(low >> 16) & 0xff] ^
         kTables[4][low >> 24] ^ kTables[3][p[4]] ^ kTables[2][p[5]] ^ kTables[1][p[6]] ^
         kTables[0][p[7]];
}

/// Of two remainders, with the coefficient of x^31 in bit 0.
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) ? kPolynomial : 0);
  }
  return product;
}

/// Entry k moves a register behind 2^k octets.
constexpr std::array<std::uint32_t, 64> make_powers() {
  std::array<std::uint32_t, 64> powers{};
  powers[0] = 0x80000000u >> 8;
  for (std::size_t k = 1; k < powers.size(); ++k) {
    powers[k] = multiply(powers[k - 1], powers[k - 1]);
  }
  return powers;
}

constexpr std::array<std::uint32_t, 64> kPowers = make_powers();

/// So long is a Write's segment, of which most sums are.
constexpr std::size_t kUsualOctets = 32 * 1024;

/// Table k moves octet k of a register behind so many.
constexpr std::array<Table, 4> make_usual_moves() {
  std::array<Table, 4> tables{};
  for (unsigned k = 0; k < tables.size(); ++k) {
    for (std::uint32_t octet = 0; octet < 256; ++octet) {
      tables[k][octet] = multiply(octet << (8 * k), kPowers[std::countr_zero(kUsualOctets)]);
    }
  }
  return tables;
}

constexpr std::array<Table, 4> kUsualMoves = make_usual_moves();

}  // namespace

std::uint32_t crc32c_append(std::uint32_t state, std::uint32_t sum, std::size_t octets) {
  if (octets == kUsualOctets) {
    return kUsualMoves[0][state & 0xff] ^ kUsualMoves[1][(state >> 8) & 0xff] ^
           kUsualMoves[2][(state >> 16) & 0xff] ^ kUsualMoves[3][state >> 24] ^ sum;
  }
  for (std::size_t k = 0; octets != 0; ++k, octets >>= 1) {
    if ((octets & 1) != 0) state = multiply(state, kPowers[k]);
  }
  return state ^ sum;
}

std::uint32_t crc32c_extend_portable(std::uint32_t state, Octets data) {
  const std::uint8_t* p = data.data();
  std::size_t left = data.size();
  for (; left >= kSlices; left -= kSlices, p += kSlices) state = step8(state, p);
  for (; left > 0; --left, ++p) state = (state >> 8) ^ kTables[0][(state ^ *p) & 0xff];
  return state;
}

}  // namespace weft

// Startup frames out of any octets. What the parser says about a whole must agree with what it
// said about every shorter prefix, and a frame it found must survive encode and parse.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "wire/startup_frame.h"

namespace {

using namespace weft;
using namespace weft::wire;

void require(bool held) {
  if (!held) std::abort();
}

void check_frame(const StartupFrame& frame, Octets in) {
  const std::size_t octets = frame.octets();
  require(octets <= in.size() && octets <= kStartupFrameOctetsMax);
  std::array<std::uint8_t, kStartupFrameOctetsMax> out;
  require(frame.encode(out) == octets);
  // All but the four reserved flag bits, which are sent as zero, comes back.
  std::vector<std::uint8_t> expected(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(octets));
  expected[16] &= 0xf0;
  require(std::equal(expected.begin(), expected.end(), out.begin()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Octets in(data, size);
  const auto result = parse_startup_frame(in);
  if (const auto* frame = std::get_if<StartupFrame>(&result)) check_frame(*frame, in);
  if (const auto* more = std::get_if<NeedMore>(&result)) {
    require(more->octets_total > size && more->octets_total <= kStartupFrameOctetsMax);
  }

  // The octets as they may arrive: one more each time, in memory of exactly that size.
  bool faulty = false;
  for (std::size_t arrived = 0; arrived <= std::min(size, kStartupFrameOctetsMax); ++arrived) {
    const std::vector<std::uint8_t> copy(data, data + arrived);
    const auto now = parse_startup_frame(copy);
    const auto* fault = std::get_if<StartupFault>(&now);
    require(!faulty || fault);  // no later octet makes a bad frame good
    faulty = fault != nullptr;
    if (const auto* more = std::get_if<NeedMore>(&now)) require(more->octets_total > arrived);
  }
  require(faulty == std::holds_alternative<StartupFault>(result));
  return 0;
}

// Nudges: a peer that lets our first FPDUs lie is made to look again.
//
// Linux siw takes over the socket only after its Reply has left. What arrives before that raises no
// upcall: it lies in the socket until more arrives, and an initiator that waits for an answer waits
// for ever (docs/adr/0005-a-silent-responder-is-nudged.md). So an initiator whose peer is silent
// sends an RDMA Write of nothing, a few times, further and further apart. It touches no memory,
// completes nothing and takes no number, and every peer has to accept it.
#include "core/qp/qp.h"

namespace weft::core {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(5);
/// Each pause is four times the one before: the last nudge goes 1.7 s after the Reply. What a
/// connection costs that is made and left idle are mostly these.
constexpr int kPauseDoublings = 2;
constexpr std::uint8_t kNudgesMax = 5;
/// Nudges of many streams fall on the same instants, so that they cost the engine few wake-ups.
constexpr Duration kGrid = std::chrono::milliseconds(5);

}  // namespace

void QP::plan_nudge(Instant now) {
  const std::int64_t due = (now + kFirstPause * (1 << kPauseDoublings * nudges_)).ns;
  const std::int64_t grid = kGrid.count();
  nudge_at_ = Instant{(due + grid - 1) / grid * grid};
}

// A responder may not send before our first FPDU reached it (CON-15). Hence its own first FPDU says
// that it looks at its socket and has read all that lay there: that ends the nudging for good.
void QP::nudge(Instant now) {
  if (!nudge_at_ || now < *nudge_at_) return;
  nudge_at_.reset();
  if (++nudges_ < kNudgesMax) plan_nudge(now);
  // Before we sent anything there is nothing it could have missed, and what goes now does as well.
  if (produced_ == 0 || wants_transmit()) return;
  rtr_ = RTR::Write;
  rtr_pending_ = true;
}

}  // namespace weft::core

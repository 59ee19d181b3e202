// The CQ event table.
#include "core/qp/cq_state.h"

namespace weft::core {
namespace {

using S = CQState;
using I = CQInput;

// Row (state, input) stands at state * kInputs + input: the lookup is an index. Arming can widen
// (solicited -> any) but not narrow: a consumer that armed for any must hear of the next one
// (ibv_req_notify_cq of a wider kind stays in force). An overflow is told once, whether armed or
// not: the completion that was lost may be the one the consumer waits for.
//= SEC-07
constexpr CQTransition kTransitions[] = {
    {S::Quiet, I::ArmSolicited, S::ArmedSolicited, false},
    {S::Quiet, I::ArmAny, S::ArmedAny, false},
    {S::Quiet, I::Completion, S::Quiet, false},
    {S::Quiet, I::SolicitedCompletion, S::Quiet, false},
    {S::Quiet, I::Overflow, S::Overflowed, true},

    {S::ArmedSolicited, I::ArmSolicited, S::ArmedSolicited, false},
    {S::ArmedSolicited, I::ArmAny, S::ArmedAny, false},
    {S::ArmedSolicited, I::Completion, S::ArmedSolicited, false},
    {S::ArmedSolicited, I::SolicitedCompletion, S::Quiet, true},
    {S::ArmedSolicited, I::Overflow, S::Overflowed, true},

    {S::ArmedAny, I::ArmSolicited, S::ArmedAny, false},
    {S::ArmedAny, I::ArmAny, S::ArmedAny, false},
    {S::ArmedAny, I::Completion, S::Quiet, true},
    {S::ArmedAny, I::SolicitedCompletion, S::Quiet, true},
    {S::ArmedAny, I::Overflow, S::Overflowed, true},

    {S::Overflowed, I::ArmSolicited, S::Overflowed, false},
    {S::Overflowed, I::ArmAny, S::Overflowed, false},
    {S::Overflowed, I::Completion, S::Overflowed, false},
    {S::Overflowed, I::SolicitedCompletion, S::Overflowed, false},
    {S::Overflowed, I::Overflow, S::Overflowed, false},
};
constexpr std::size_t kInputs = 5;
static_assert(std::size(kTransitions) == 4 * kInputs);

constexpr bool in_index_order() {
  for (std::size_t i = 0; i < std::size(kTransitions); ++i) {
    if (static_cast<std::size_t>(kTransitions[i].from) != i / kInputs) return false;
    if (static_cast<std::size_t>(kTransitions[i].input) != i % kInputs) return false;
  }
  return true;
}
static_assert(in_index_order());

}  // namespace

std::span<const CQTransition> cq_transitions() { return kTransitions; }

const CQTransition& cq_step(CQState from, CQInput input) {
  return kTransitions[static_cast<std::size_t>(from) * kInputs + static_cast<std::size_t>(input)];
}

}  // namespace weft::core

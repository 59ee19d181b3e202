// The shared RQ's limit event as a table.
#include "core/qp/srq_state.h"

#include <cstddef>
#include <iterator>

namespace weft::core {
namespace {

using S = SRQState;
using I = SRQInput;

// Row (state, input) stands at state * kInputs + input: the lookup is an index. Setting a limit
// again only moves the line; the event is given once and then wants a new limit.
constexpr SRQTransition kTransitions[] = {
    {S::Unarmed, I::Arm, S::Armed, false},
    {S::Unarmed, I::Disarm, S::Unarmed, false},
    {S::Unarmed, I::Below, S::Unarmed, false},

    {S::Armed, I::Arm, S::Armed, false},
    {S::Armed, I::Disarm, S::Unarmed, false},
    {S::Armed, I::Below, S::Unarmed, true},
};
constexpr std::size_t kInputs = 3;
static_assert(std::size(kTransitions) == 2 * kInputs);

constexpr bool in_index_order() {
  for (std::size_t i = 0; i < std::size(kTransitions); ++i) {
    if (static_cast<std::size_t>(kTransitions[i].from) != i / kInputs) return false;
    if (static_cast<std::size_t>(kTransitions[i].input) != i % kInputs) return false;
  }
  return true;
}
static_assert(in_index_order());

}  // namespace

std::span<const SRQTransition> srq_transitions() { return kTransitions; }

const SRQTransition& srq_step(SRQState from, SRQInput input) {
  return kTransitions[static_cast<std::size_t>(from) * kInputs + static_cast<std::size_t>(input)];
}

}  // namespace weft::core

// From an operation that was drawn to the work request that is posted.
#pragma once

#include <vector>

#include "core/work.h"
#include "tests/sim/arena.h"
#include "tests/sim/workload.h"

namespace weft::sim {

/// The WR to post; `sges` and `binding` keep what it points to. Both arenas are sealed.
core::SendWR make_wr(const Operation&, std::uint64_t id, const Arena& own, const Arena& peer,
                     std::vector<core::SGE>& sges, core::WindowBinding& binding);
std::vector<core::SGE> make_sges(const std::vector<Run>&, const Arena& own);

const char* name(core::WorkOpcode);

}  // namespace weft::sim

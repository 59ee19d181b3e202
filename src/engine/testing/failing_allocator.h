// Test-only: an operator new that fails when it is told to. It replaces that of the whole program:
// link failing_allocator.cc. A limit of the process (RLIMIT_AS) would not go together with the
// shadow memory of the sanitizers.
#pragma once

#include <cstddef>

namespace weft::engine::testing {

/// While it lives, allocation number `nth` (from 0) of at least `octets_min` octets that this
/// thread makes fails; those after it succeed again. One at a time.
class FailAllocation {
 public:
  FailAllocation(int nth, std::size_t octets_min);
  ~FailAllocation();
  FailAllocation(const FailAllocation&) = delete;
  FailAllocation& operator=(const FailAllocation&) = delete;
  /// It came to that.
  bool struck() const;
};

/// How often this thread has allocated or freed so far.
std::size_t memory_calls();

}  // namespace weft::engine::testing

// Memory windows.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "verbs/pd.h"

namespace weft::verbs {

/// Calls match `open close`. Threads: any for reads; open and close exclude all others. What binds
/// a window is a send queue entry, so its present key is known to who posts, not here.
class MW {
 public:
  Result<void> open(PD& pd, device::WindowKind kind);
  /// Bound or not.
  Result<void> close();

  /// As allocated; the index stays, the key changes with each bind.
  std::uint32_t stag() const { return stag_; }

 private:
  PD* pd_ = nullptr;
  std::uint32_t stag_ = 0;
};

}  // namespace weft::verbs

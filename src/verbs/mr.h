// Memory regions.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "verbs/pd.h"

namespace weft::verbs {

/// What to register. `access` holds device::RegionAccess bits.
struct RegionShape {
  std::uint64_t address = 0;
  std::uint64_t octets = 0;
  std::uint64_t base_to = 0;
  std::uint32_t access = 0;
  bool on_demand = false;  ///< its memory need not be there yet
  /// All memory that the process has and will have: address and base_to are 0, octets is the
  /// largest number there is. It has to be on demand.
  bool everything = false;
};

/// Calls match `open reopen* close`. Threads: any for reads; open, reopen and close exclude all
/// others.
class MR {
 public:
  /// EINVAL: the range or its TOs wrap, or rights that make no sense; EFAULT: memory that is not
  /// there. Length 0 is a region that allows nothing.
  Result<void> open(PD& pd, const RegionShape& shape);
  /// Changes the region in place; the STag stays. `pd` may be another one.
  Result<void> reopen(PD& pd, const RegionShape& shape);
  /// From then on the device refuses whatever is asked of it.
  Result<void> close();

  std::uint32_t stag() const { return stag_; }
  const RegionShape& shape() const { return shape_; }
  PD& pd() { return *pd_; }

 private:
  PD* pd_ = nullptr;
  RegionShape shape_;
  std::uint32_t stag_ = 0;
};

}  // namespace weft::verbs

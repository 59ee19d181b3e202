// Checks a region before the device sees it.
#include "verbs/mr.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

namespace weft::verbs {
namespace {

bool wraps(std::uint64_t first, std::uint64_t octets) {
  return octets != 0 && first > std::numeric_limits<std::uint64_t>::max() - (octets - 1);
}

/// Whether every page of the range is mapped now. An RNIC finds out when it pins them; here nothing
/// is pinned, and the check only gives a wrong address the error that programs expect. The engine
/// guards itself against pages that go away later.
bool is_mapped(std::uint64_t address, std::uint64_t octets) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t start = address & ~(page - 1);
  // The kernel would round a length this close to 2^64 up to 0, and find nothing amiss.
  if (octets > std::numeric_limits<std::uint64_t>::max() - 2 * page) return false;
  // MS_ASYNC does nothing but walk the mappings, and says ENOMEM where there is none.
  return msync(reinterpret_cast<void*>(start), address - start + octets, MS_ASYNC) == 0 ||
         errno != ENOMEM;
}

Result<void> check(const RegionShape& shape) {
  constexpr std::uint32_t kRemoteChange = device::kRemoteWrite | device::kRemoteAtomic;
  if ((shape.access & kRemoteChange) != 0 && (shape.access & device::kLocalWrite) == 0) {
    return Error{EINVAL, "remote write and atomic access need local write access"};
  }
  if (shape.everything && (!shape.on_demand || (shape.access & device::kZeroBased) != 0)) {
    return Error{EINVAL, "a region of all memory is on demand, and its offsets are addresses"};
  }
  if (wraps(shape.address, shape.octets) || wraps(shape.base_to, shape.octets)) {
    return Error{EINVAL, "the region passes the end of the address space"};
  }
  if ((shape.access & device::kNull) != 0 || shape.on_demand) return {};
  if (shape.octets != 0 && !is_mapped(shape.address, shape.octets)) {
    return Error{EFAULT, "the region's memory is not mapped"};
  }
  return {};
}

device::RegionRequest request(PD& pd, const RegionShape& shape) {
  // Nothing is ever at address 0, by which the device knows that there is no memory.
  if (shape.everything) return {pd.number(), shape.access, 1, shape.octets - 1, 1};
  return {pd.number(), shape.access, shape.address, shape.octets, shape.base_to};
}

}  // namespace

Result<void> MR::open(PD& pd, const RegionShape& shape) {
  if (auto checked = check(shape); !checked) return checked;
  auto stag = pd.device().register_region(request(pd, shape));
  if (!stag) return stag.error();
  stag_ = *stag;
  shape_ = shape;
  pd_ = &pd;
  pd.uses().add();
  return {};
}

Result<void> MR::reopen(PD& pd, const RegionShape& shape) {
  if (auto checked = check(shape); !checked) return checked;
  if (auto done = pd.device().reregister_region(stag_, request(pd, shape)); !done) return done;
  shape_ = shape;
  pd.uses().add();
  pd_->uses().drop();
  pd_ = &pd;
  return {};
}

Result<void> MR::close() {
  if (auto done = pd_->device().deregister_region(stag_); !done) return done;
  pd_->uses().drop();
  stag_ = 0;
  return {};
}

}  // namespace weft::verbs

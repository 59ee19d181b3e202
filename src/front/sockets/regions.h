// The memory that is registered on one socket.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"

struct ibv_mr;

namespace weft::sockets {

struct Region {
  int number = 0;
  std::uintptr_t address = 0;
  std::size_t octets = 0;
  int rights = 0;  ///< IWARP_LOCAL_WRITE and its kin
  std::uint32_t local_key = 0;
  std::uint32_t remote_key = 0;
  ibv_mr* registration = nullptr;  ///< not owned
  // The youngest operation that uses it; 0: none did. They end in order, so one number is enough.
  std::uint64_t last_transfer = 0;
  std::uint64_t last_send = 0;

  bool holds(std::uintptr_t at, std::size_t count) const {
    return at >= address && count <= octets && at - address <= octets - count;
  }
};

/// One thread at a time. A Region stays where it is until it is taken.
class Regions {
 public:
  std::size_t size() const { return by_address_.size(); }
  /// Gives it its number, which counts up and is never given again.
  /// ENOBUFS: there are IWARP_REGIONS_MAX, or the numbers have run out.
  Result<Region*> add(const Region& region);
  Region* find(int number);
  /// Removes it; null: there is none.
  std::unique_ptr<Region> take(int number);
  /// Any one of them.
  Region* any() { return by_address_.empty() ? nullptr : by_address_.front().get(); }

  /// A region that holds all these octets, if `rights` are among its own. EFAULT: none holds
  /// them; EACCES: those that do were not registered for it.
  Result<Region*> around(const void* memory, std::size_t octets, int rights);
  /// The same if it is the one found last, or null.
  Region* around_again(const void* memory, std::size_t octets, int rights) const {
    const bool same = hit_ != nullptr &&
                      hit_->holds(reinterpret_cast<std::uintptr_t>(memory), octets) &&
                      (hit_->rights & rights) == rights;
    return same ? hit_ : nullptr;
  }

 private:
  Result<Region*> search(std::uintptr_t at, std::size_t octets, int rights);

  std::vector<std::unique_ptr<Region>> by_address_;
  std::size_t octets_max_ = 0;  ///< of any region there ever was
  Region* hit_ = nullptr;       ///< found last: programs use the same memory again
  int last_number_ = -1;
};

}  // namespace weft::sockets

// Which connections exchange small messages just now, so that bulk beside them takes short turns.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>

#include "base/time.h"

namespace weft::engine {

/// Remembers the two that were brisk last: where one of them is the one that asks, there may be
/// another. Connections are compared and never looked at: they may be gone.
class Brisk {
 public:
  void note(const void* connection, Instant now) {
    if (latest_[0].connection != connection) latest_[1] = latest_[0];
    latest_[0] = {connection, now + kFor};
  }
  /// May one be? `now` may be earlier than it is.
  bool any(Instant now) const { return latest_[0].until > now || latest_[1].until > now; }
  bool is(const void* connection, Instant now) const {
    return std::any_of(latest_.begin(), latest_.end(), [&](const Entry& entry) {
      return entry.connection == connection && entry.until > now;
    });
  }
  /// Is there another one than this?
  bool other_than(const void* connection, Instant now) const {
    return std::any_of(latest_.begin(), latest_.end(), [&](const Entry& entry) {
      return entry.connection != connection && entry.until > now;
    });
  }

 private:
  /// Some round trips within a machine or a rack.
  static constexpr Duration kFor = std::chrono::milliseconds(2);
  struct Entry {
    const void* connection = nullptr;
    Instant until;
  };
  std::array<Entry, 2> latest_;
};

}  // namespace weft::engine

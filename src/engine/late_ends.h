// The ends of connections of which their programs are not to hear before they have read what came
// over them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "device/device.h"

namespace weft::engine {

/// A program that is told of the end of a connection destroys its QP, and with it the completions
/// that it has not read: the peer's last message. On other RNICs the end takes a long way through
/// the kernel; here it comes right behind that message, and a thread that did not run for a moment
/// finds both. So the end waits until the completions before it are read, or for kPatience: who
/// waits for the end does not read.
///
/// Threads: the progress lock.
class LateEnds {
 public:
  /// How far a CQ was filled when the connection ended.
  struct Mark {
    device::CQNumber cq;
    std::uint32_t produced;
  };

  /// bad_alloc: as it was before.
  void add(const device::ConnectionEvent& end, Mark sends, Mark receives, Instant now) {
    late_.push_back({end, sends, receives, now + kPatience});
  }
  bool empty() const { return late_.empty(); }
  std::optional<Instant> deadline() const {
    if (late_.empty()) return std::nullopt;
    return late_.front().until;  // all have the same patience
  }
  /// Gives report(const device::ConnectionEvent&) those that wait no longer. is_read(Mark)?
  template <typename IsRead, typename Report>
  void serve(Instant now, IsRead&& is_read, Report&& report) {
    std::erase_if(late_, [&](const Late& late) {
      const bool over = late.until <= now || (is_read(late.sends) && is_read(late.receives));
      if (over) report(late.end);
      return over;
    });
  }
  /// The end of this connection waits no longer.
  void hurry(device::ConnectionNumber connection) {
    for (Late& late : late_) {
      if (late.end.connection == connection) late.until = {};
    }
  }
  /// The program wants to hear no more of this connection.
  void forget(device::ConnectionNumber connection) {
    std::erase_if(late_, [&](const Late& late) { return late.end.connection == connection; });
  }

 private:
  /// A thread's turn on a busy processor, several times.
  static constexpr Duration kPatience = std::chrono::milliseconds(50);
  struct Late {
    device::ConnectionEvent end;
    Mark sends, receives;
    Instant until;
  };
  std::vector<Late> late_;
};

}  // namespace weft::engine

// How many sends a program has posted and does not know to be done.
#pragma once

#include <cstdint>

namespace weft::verbs {

/// A program learns by completions: the one of a signalled request also tells of the unsignalled
/// ones before it. Threads: the send queue's lock.
class OpenSends {
 public:
  /// `polled`: how many of this queue's completions were, since ever.
  std::uint32_t open(std::uint32_t polled) {
    // Unsignalled requests that failed give completions too: never mind who was first.
    if (static_cast<std::int32_t>(signaled_ - polled) < 0) signaled_ = polled;
    return signaled_ - polled + silent_;
  }
  /// A list was posted: its signalled requests, and the unsignalled ones behind the last of them.
  void add(std::uint32_t signaled, std::uint32_t silent) {
    signaled_ += signaled;
    silent_ = signaled != 0 ? silent : silent_ + silent;
  }

 private:
  std::uint32_t signaled_ = 0;
  std::uint32_t silent_ = 0;
};

}  // namespace weft::verbs

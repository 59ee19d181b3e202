// What a peer's Writes put into one region, and the device has not copied there yet.
//
// The octets still lie where they were received. Who reads the region through the device, once and
// in order, as a stream does with its ring, gets them from there: one copy less, out of memory that
// is in the cache. Whatever nobody has read when the device wants its room back is placed then.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/octets.h"
#include "core/host.h"

namespace weft::engine {

/// Threads: the progress lock, but for the count.
class KeptWrites {
 public:
  /// What is shorter is placed: that costs less than keeping an account of it.
  static constexpr std::size_t kOctetsMin = 4 * 1024;

  /// `count` is how many pieces are kept; who sees 0 may read the region itself.
  KeptWrites(std::uint32_t stag, std::atomic<std::uint32_t>& count) : stag_(stag), count_(count) {}
  KeptWrites(const KeptWrites&) = delete;
  KeptWrites& operator=(const KeptWrites&) = delete;

  std::uint32_t stag() const { return stag_; }
  bool empty() const { return used_ == 0; }
  /// `run` was written by the peer, to be at `target`. False: place it. True: it is kept, and stays
  /// where it is until place().
  bool keep(std::uint8_t* target, Octets run, core::Mover& mover);
  /// All of them go where they belong, if that is still there.
  void place(core::Mover& mover);
  /// As a copy of the region's `source` to `target`; without `peek`, what was kept of it is
  /// dropped. False: one of the two is not there any more, or not all of it.
  bool read(std::uint8_t* target, Octets source, bool peek, core::Mover& mover);
  /// The same for a signal handler that interrupted the device in this very thread, wherever that
  /// is with the rest of this class. Changes nothing.
  void peek(std::uint8_t* target, Octets source) const;

 private:
  struct Piece {
    std::uint8_t* target;
    Octets octets;
    const std::uint8_t* end() const { return target + octets.size(); }
  };

  void set_used(std::size_t used) {
    used_ = used;
    count_.store(static_cast<std::uint32_t>(used), std::memory_order_release);
  }
  Octets find(Octets source) const;
  void drop(const std::uint8_t* first, const std::uint8_t* end);

  const std::uint32_t stag_;
  std::atomic<std::uint32_t>& count_;
  std::array<Piece, 16> pieces_;  ///< in the order in which they came; none overlaps another
  std::size_t used_ = 0;
};

}  // namespace weft::engine

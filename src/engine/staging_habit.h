// Whether what is not spliced from where it lies is faster by way of staging that is.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace weft::engine {

/// The kernel copies what it sends to memory that it takes from, and gives back to, the processor
/// that reads it. While the two processors share a cache that is a good way; while their caches are
/// far apart it takes three times as long as a copy of ours to pages that are passed on.
///
/// So who finds the kernel's copies slow tries the other way for a while, and goes on with it if
/// that takes two thirds of the time or less. After each such while the kernel is asked again; who
/// found nothing to be gained asks twice as rarely each time.
class StagingHabit {
 public:
  /// Octets of a batch that counts: of less the ways differ little.
  static constexpr std::size_t kOctetsMin = 16'000;
  /// Batches that are slow one after the other, before staging is tried.
  static constexpr std::uint32_t kSlowInARow = 8;
  /// Batches for which it then is.
  static constexpr std::uint32_t kWhile = 1024;

  /// `always`: whatever is noted.
  explicit StagingHabit(bool always) : always_(always) {}

  bool stages() const { return always_ || left_ != 0; }
  /// The sender was busy for so long with a batch, CRC and all, as stages() says.
  void note(std::size_t octets, Duration took) {
    left_ != 0 ? note_staged(octets, took) : note_copied(octets, took);
  }

 private:
  /// Of a while's batches the first find other lines in the caches than the later ones, of which
  /// so many are judged.
  static constexpr std::uint32_t kWarmUp = 64, kJudged = 16;
  static constexpr std::uint32_t kRestMin = 1024, kRestMax = 1 << 16;

  struct Pace {
    std::size_t octets = 0;
    Duration took{};

    void add(std::size_t more, Duration took_more) {
      octets += more;
      took += took_more;
    }
    Duration per_mib() const {
      return took * (1 << 20) / static_cast<Duration::rep>(std::max<std::size_t>(octets, 1));
    }
  };
  /// 2.2 GB/s. Near caches have 3.3 and more, far ones 1.5 and less.
  static constexpr Duration kSlowPerMib = std::chrono::microseconds(480);

  void note_copied(std::size_t octets, Duration took) {
    if (rest_ != 0) return static_cast<void>(--rest_);
    Pace pace;
    pace.add(octets, took);
    if (pace.per_mib() < kSlowPerMib) {
      slow_ = 0;
      return;
    }
    if (slow_++ == 0) copied_ = {};
    copied_.add(octets, took);
    if (slow_ < kSlowInARow) return;
    slow_ = 0;
    left_ = kWhile;
    staged_ = {};
  }
  void note_staged(std::size_t octets, Duration took) {
    const std::uint32_t noted = kWhile - left_--;
    if (noted < kWarmUp || noted >= kWarmUp + kJudged) return;
    staged_.add(octets, took);
    if (noted + 1 != kWarmUp + kJudged) return;
    if (3 * staged_.per_mib() <= 2 * copied_.per_mib()) {
      next_rest_ = kRestMin;
      return;
    }
    left_ = 0;
    rest_ = next_rest_;
    next_rest_ = std::min(2 * next_rest_, kRestMax);
  }

  const bool always_;
  std::uint32_t left_ = 0;  ///< batches of this while
  std::uint32_t rest_ = 0;  ///< batches that are copied whatever they take
  std::uint32_t next_rest_ = kRestMin;
  std::uint32_t slow_ = 0;  ///< in a row
  Pace copied_, staged_;    ///< of those in a row; of those judged
};

}  // namespace weft::engine

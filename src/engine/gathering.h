// When a post may wait for the posts behind it, so that they leave in one system call.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "device/device.h"

namespace weft::engine {

/// Whether posts that wait are joined by others, among all QPs of an RNIC: those of requests and
/// answers never are, signalled or not. After so many in a row that were not, the next do not wait,
/// unless some of them turn out to have followed each other.
///
/// Threads: as Gathering.
class Company {
 public:
  /// Not for this post. `followed`: it would have joined an earlier one.
  bool is_rare(bool followed) {
    const std::uint32_t rare = rare_.load(std::memory_order_relaxed);
    if (rare == 0) return false;
    const std::uint32_t follow = followed_.load(std::memory_order_relaxed) + (followed ? 1 : 0);
    followed_.store(follow, std::memory_order_relaxed);
    rare_.store(follow < kFollowMax ? rare - 1 : 0, std::memory_order_relaxed);
    return true;
  }
  /// Will the next post not wait?
  bool is_rare() const { return rare_.load(std::memory_order_relaxed) != 0; }
  void handle_served(bool alone) {
    alone_ = alone ? alone_ + 1 : 0;
    if (alone_ < kAloneMax) return;
    alone_ = 0;
    followed_.store(0, std::memory_order_relaxed);
    rare_.store(kRarePosts, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t kAloneMax = 16, kRarePosts = 1024, kFollowMax = 4;

  std::atomic<std::uint32_t> rare_{0};      ///< posts to come that do not wait
  std::atomic<std::uint32_t> followed_{0};  ///< those of them so far that would have been joined
  std::uint32_t alone_ = 0;                 ///< in a row
};

/// A QP's posts that wait, and whether more may (docs/adr/0013-posts-gather.md).
///
/// Threads: may_wait by whoever posts; several threads that post to one QP may lose each other's
/// counts, and a batch is somewhat larger for it. handle_served under the progress lock.
class Gathering {
 public:
  /// Is this post in the middle of a stream of posts? Else it never waits.
  static bool in_stream(const device::Posted& posted) { return posted.open >= kOpenMin; }
  /// Is a post that did not wait in no stream after all, for those before it were not joined, or
  /// were forgotten?
  bool is_lone(const Company& company) const {
    return barred_.load(std::memory_order_relaxed) != 0 || company.is_rare();
  }
  /// May what this doorbell rings for, which is in_stream, wait for a later call of the program? If
  /// so it counts as waiting until handle_served. `armings`: how often the QP's CQs were armed so
  /// far.
  bool may_wait(const device::Posted& posted, std::uint32_t armings, std::uint32_t empty_polls,
                Company& company) {
    // Armed since the last post: this program sleeps between its posts.
    if (armings_.load(std::memory_order_relaxed) != armings) {
      armings_.store(armings, std::memory_order_relaxed);
      return false;
    }
    if (const std::uint32_t barred = barred_.load(std::memory_order_relaxed); barred != 0) {
      barred_.store(barred - 1, std::memory_order_relaxed);
      return false;
    }
    // What waits leaves with the next poll that finds nothing, at the latest.
    const bool followed = polls_.load(std::memory_order_relaxed) == empty_polls;
    polls_.store(empty_polls, std::memory_order_relaxed);
    if (company.is_rare(followed)) return false;
    const std::uint64_t weight =
        waiting_.load(std::memory_order_relaxed) + posted.octets + posted.entries * kEntryWeight;
    waiting_.store(weight, std::memory_order_relaxed);
    const std::uint32_t posts = posts_.load(std::memory_order_relaxed);
    if (weight < kWeightMax || posts != 0) posts_.store(posts + 1, std::memory_order_relaxed);
    return weight < kWeightMax;
  }

  /// All that was posted is being sent. `forgotten`: no call of the program came, so the next posts
  /// do not wait; the more of them, the more often this happens.
  void handle_served(bool forgotten, Company& company) {
    if (waiting_.load(std::memory_order_relaxed) == 0) return;
    waiting_.store(0, std::memory_order_relaxed);
    const std::uint32_t posts = posts_.load(std::memory_order_relaxed);
    posts_.store(0, std::memory_order_relaxed);
    if (posts != 0) company.handle_served(posts == 1);
    penalty_ =
        forgotten ? std::min(penalty_ * 2, kPenaltyMax) : std::max(penalty_ / 2, kPenaltyMin);
    if (forgotten) barred_.store(penalty_, std::memory_order_relaxed);
  }

 private:
  /// So many posts that the program does not know to be done make a stream of posts. A message and
  /// the flag behind it do not.
  static constexpr std::uint32_t kOpenMin = 4;
  /// What an entry costs beside its octets, so that small ones leave in time too: by the hundred.
  static constexpr std::uint64_t kEntryWeight = 4096;
  /// As much as leaves in one batch that has a CRC.
  static constexpr std::uint64_t kWeightMax = 512 * 1024;
  static constexpr std::uint32_t kPenaltyMin = 1024, kPenaltyMax = 1 << 20;

  std::atomic<std::uint64_t> waiting_{0};  ///< weight of what waits
  std::atomic<std::uint32_t> posts_{0};    ///< how many they are; 0: one that never does
  std::atomic<std::uint32_t> barred_{0};   ///< posts to come that may not wait
  std::atomic<std::uint32_t> polls_{0};  ///< that found nothing, by the last that might have waited
  std::atomic<std::uint32_t> armings_{0};  ///< at the last post that might have waited
  std::uint32_t penalty_ = kPenaltyMin / 2;
};

}  // namespace weft::engine

// How often each time was seen: a complete histogram in little memory, with a stated error.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace weft::measure {

/// Counts nanoseconds in log-linear buckets: below 256 each value has its own, above it every
/// power of two is divided into 128, so that a bucket is narrower than 1/128 (0.79 %) of what lies
/// in it. A percentile is the middle of its bucket, hence at most 0.4 % away from the sample
/// itself. Count, sum, least and greatest are exact. Nothing is left out, however long a run is.
/// Single-threaded; merge() joins those of several threads.
class Histogram {
 public:
  static constexpr unsigned kSubBits = 7;
  static constexpr std::uint64_t kSub = 1u << kSubBits;
  /// Up to 2^47 ns, some 39 hours; what takes longer is counted in the last bucket.
  static constexpr unsigned kOctavesMax = 40;
  static constexpr std::size_t kBuckets = (kOctavesMax + 1) * kSub;

  void add(std::uint64_t ns) {
    ++counts_[index_of(ns)];
    ++count_;
    sum_ += ns;
    if (ns < least_) least_ = ns;
    if (ns > greatest_) greatest_ = ns;
  }
  void merge(const Histogram& other);
  void clear() { *this = Histogram(); }

  std::uint64_t count() const { return count_; }
  std::uint64_t sum() const { return sum_; }
  /// Of at least one sample.
  std::uint64_t least() const { return least_; }
  std::uint64_t greatest() const { return greatest_; }
  double mean() const { return static_cast<double>(sum_) / static_cast<double>(count_); }
  /// The value that at least the share `p` (0..1) of all samples does not exceed: that of the
  /// sample ceil(p * count), in order. Of at least one sample.
  double percentile(double p) const;

  std::uint64_t count_of(std::size_t bucket) const { return counts_[bucket]; }
  /// The values of a bucket: from lower to below lower + width.
  static constexpr std::uint64_t lower(std::size_t bucket) {
    const std::size_t octave = bucket >> kSubBits;
    const std::uint64_t sub = bucket & (kSub - 1);
    return octave == 0 ? sub : (kSub + sub) << (octave - 1);
  }
  static constexpr std::uint64_t width(std::size_t bucket) {
    const std::size_t octave = bucket >> kSubBits;
    return octave == 0 ? 1 : std::uint64_t{1} << (octave - 1);
  }
  static constexpr std::size_t index_of(std::uint64_t ns) {
    if (ns < kSub) return ns;
    const auto top = static_cast<unsigned>(std::bit_width(ns)) - 1;  // >= kSubBits
    const unsigned octave = top - kSubBits + 1;
    if (octave > kOctavesMax) return kBuckets - 1;
    return (std::size_t{octave} << kSubBits) + ((ns >> (octave - 1)) & (kSub - 1));
  }

 private:
  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t least_ = ~std::uint64_t{0};
  std::uint64_t greatest_ = 0;
};

}  // namespace weft::measure

// What one measurement moves, and what it found.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace weft::bench {

enum class Work : std::uint32_t { WriteBandwidth, ReadBandwidth, SendBandwidth, WriteLatency,
                                  SendLatency, WriteRate };
enum class MediumKind : std::uint32_t { TCP, RDMA };

/// How a work is written in --only, in the table and in JSON.
struct WorkTraits {
  Work work;
  std::string_view name;
  std::string_view title;
  std::string_view unit;
};

inline constexpr WorkTraits kWorks[] = {
    {Work::WriteBandwidth, "write-bw", "RDMA Write bandwidth", "GB/s"},
    {Work::ReadBandwidth, "read-bw", "RDMA Read bandwidth", "GB/s"},
    {Work::SendBandwidth, "send-bw", "Send bandwidth", "GB/s"},
    {Work::WriteLatency, "write-lat", "RDMA Write latency, half a round trip", "us"},
    {Work::SendLatency, "send-lat", "Send latency, half a round trip", "us"},
    {Work::WriteRate, "write-rate", "RDMA Write message rate", "M/s"},
};

constexpr const WorkTraits& traits(Work work) { return kWorks[static_cast<std::size_t>(work)]; }

constexpr bool is_latency(Work work) {
  return work == Work::WriteLatency || work == Work::SendLatency;
}

/// One uninterrupted measurement over one medium. Plain octets: one end tells it the other.
struct Leg {
  Work work{};
  MediumKind medium{};
  std::uint64_t octets = 0;  ///< of one message
  std::uint64_t batch = 1;   ///< messages per doorbell, or per sendmsg
  std::uint64_t count = 0;   ///< messages; for latency round trips; a multiple of batch
  std::uint64_t seed = 0;    ///< of the pattern; differs from leg to leg
};

struct Sample {
  double seconds = 0;
  std::vector<std::uint32_t> half_trips_ns;  ///< latency only, in order of time
};

/// What ends a run. The text is one sentence for people, without a full stop.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Failure "WHAT: what errno means".
[[noreturn]] void fail_errno(std::string_view what);

/// CLOCK_MONOTONIC in nanoseconds.
std::uint64_t now_ns();

/// "64 KiB"
std::string size_text(std::uint64_t octets);

}  // namespace weft::bench

// What is measured here, in the words of both ends.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "measure/basics.h"

namespace weft::bench {

// What `weft ping` and `weft blast` measure with as well.
using namespace measure;

enum class Work : std::uint32_t { Requests, Connect, IdleMemory, WriteBeside, Mixed };
enum class Over : std::uint32_t { TCP, RDMA };

/// How a work is written on the command line and in JSON.
struct WorkTraits {
  Work work;
  std::string_view name;
  std::string_view unit;
  std::string_view title;
};

inline constexpr WorkTraits kWorks[] = {
    {Work::Requests, "requests", "thousand/s", "requests of many connections, each answered"},
    {Work::Connect, "connect", "thousand/s", "connections, one after the other"},
    {Work::IdleMemory, "idle-memory", "octets", "memory of an idle connection (RDMA only)"},
    {Work::WriteBeside, "write-beside", "us",
     "how much a bulk stream raises the p99 of small messages"},
    {Work::Mixed, "mixed", "us", "small messages between threads that sleep, beside polled bulk"},
};

constexpr const WorkTraits& traits(Work work) {
  return kWorks[static_cast<std::size_t>(work)];
}

/// Connect: so many connections are open at once at most.
inline constexpr std::uint64_t kConnectionsAtOnceMax = 512;
/// IdleMemory: what a leg adds, and how many legs are measured.
inline constexpr std::uint64_t kIdleConnectionsMax = 4096;
inline constexpr std::uint64_t kIdleLegs = 3;

/// One uninterrupted measurement. Plain octets: one end tells it the other.
struct Leg {
  Work work{};
  std::uint64_t connections = 1;  ///< that are open; IdleMemory: that are added
  std::uint64_t count = 0;        ///< requests, connections, or pings; Requests: a multiple of
                                  ///< connections
  std::uint64_t seed = 0;         ///< differs from leg to leg
};

struct Sample {
  double seconds = 0;
  double value = 0;  ///< IdleMemory, WriteBeside and Mixed: the figure itself
  double bulk = 0;   ///< WriteBeside and Mixed: GB/s of the stream beside
};

/// Pings carry the number of their round trip, which never repeats what the place may hold.
inline std::uint64_t trip_mark(const Leg& leg, std::uint64_t trip) {
  return (leg.seed << 32) + trip + 1;
}

}  // namespace weft::bench

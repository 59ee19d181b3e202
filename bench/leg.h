// What one measurement moves, and what it found.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "measure/basics.h"
#include "measure/usage.h"

namespace weft::bench {

// What `weft ping` and `weft blast` measure with as well.
using namespace measure;

enum class Work : std::uint32_t {
  WriteBandwidth,
  ReadBandwidth,
  SendBandwidth,
  WriteCold,
  WritePassive,
  WriteLatency,
  SendLatency,
  ReadLatency,
  WriteEvent,
  WriteRate,
  Requests,
  Connect,
  IdleMemory,
  WriteBeside,
};
enum class MediumKind : std::uint32_t { TCP, RDMA };

/// What the figure of a work is.
enum class Measure : std::uint32_t {
  Bandwidth,  ///< GB/s
  Latency,    ///< microseconds, the median
  Rate,       ///< million messages per second
  Cost,       ///< CPU seconds of the follower per GB
  Thousands,  ///< thousand per second
  Memory,     ///< octets per connection, RDMA only
  Rise,       ///< microseconds by which a p99 rises
};

/// How a work is written in --only, in the table and in JSON.
struct WorkTraits {
  Work work;
  std::string_view name;
  std::string_view title;
  Measure measure;
};

inline constexpr WorkTraits kWorks[] = {
    {Work::WriteBandwidth, "write-bw", "RDMA Write bandwidth", Measure::Bandwidth},
    {Work::ReadBandwidth, "read-bw", "RDMA Read bandwidth", Measure::Bandwidth},
    {Work::SendBandwidth, "send-bw", "Send bandwidth", Measure::Bandwidth},
    {Work::WriteCold, "write-cold", "RDMA Write bandwidth, data not in cache", Measure::Bandwidth},
    {Work::WritePassive, "write-passive", "RDMA Write into a sleeping program", Measure::Cost},
    {Work::WriteLatency, "write-lat", "RDMA Write latency, half a round trip", Measure::Latency},
    {Work::SendLatency, "send-lat", "Send latency, half a round trip", Measure::Latency},
    {Work::ReadLatency, "read-lat", "a whole RDMA Read, to half a round trip of TCP",
     Measure::Latency},
    {Work::WriteEvent, "write-event", "RDMA Write latency between programs that sleep",
     Measure::Latency},
    {Work::WriteRate, "write-rate", "RDMA Write message rate", Measure::Rate},
    {Work::Requests, "requests", "requests of many connections, each answered", Measure::Thousands},
    {Work::Connect, "connect", "connections, one after the other", Measure::Thousands},
    {Work::IdleMemory, "idle-memory", "memory of an idle connection", Measure::Memory},
    {Work::WriteBeside, "write-beside", "how a bulk stream raises the p99 of small RDMA Writes",
     Measure::Rise},
};

constexpr const WorkTraits& traits(Work work) { return kWorks[static_cast<std::size_t>(work)]; }

constexpr std::string_view unit(Measure measure) {
  constexpr std::string_view kUnits[] = {"GB/s",       "us",     "M/s", "CPU s/GB",
                                         "thousand/s", "octets", "us"};
  return kUnits[static_cast<std::size_t>(measure)];
}

constexpr bool is_latency(Work work) {
  return traits(work).measure == Measure::Latency;
}
/// Whether octets per second mean something, so that CPU per octet does.
constexpr bool is_stream(Work work) {
  return traits(work).measure == Measure::Bandwidth || traits(work).measure == Measure::Cost;
}
constexpr bool is_read(Work work) {
  return work == Work::ReadBandwidth || work == Work::ReadLatency;
}

/// Whether a lower figure is the better one.
constexpr bool is_less_better(Work work) {
  const Measure measure = traits(work).measure;
  return measure == Measure::Latency || measure == Measure::Cost || measure == Measure::Memory ||
         measure == Measure::Rise;
}
/// What has media of its own (bench/media.h) instead of the one connection that most works share.
constexpr bool has_own_media(Work work) {
  return work >= Work::Requests;
}

/// Cold data: both sides walk over so much, more than any cache holds.
inline constexpr std::uint64_t kWalkOctets = 256u << 20;

/// One uninterrupted measurement over one medium. Plain octets: one end tells it the other.
struct Leg {
  Work work{};
  MediumKind medium{};
  std::uint64_t octets = 0;  ///< of one message
  std::uint64_t batch = 1;   ///< messages per doorbell, or per sendmsg; Requests: connections
  std::uint64_t count = 0;   ///< messages; for latency round trips; a multiple of step()
  std::uint64_t seed = 0;    ///< of the pattern; differs from leg to leg
  std::uint64_t choice = 0;  ///< TCP: which of its socket buffer sizes

  /// The octets that the messages fill again and again.
  std::uint64_t span() const { return work == Work::WriteCold ? kWalkOctets : octets * batch; }
  /// Messages after which the span is full.
  std::uint64_t step() const { return work == Work::WriteCold ? kWalkOctets / octets : batch; }
};

struct Sample {
  double seconds = 0;
  std::vector<std::uint32_t> trips_ns;  ///< latency only, in order of time; halves, but for Reads
  double value = 0;                     ///< Memory and Rise: the figure itself
  double bulk = 0;                      ///< Rise: GB/s of the stream beside
};

}  // namespace weft::bench

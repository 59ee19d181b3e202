// What one run of `weft ping` or `weft blast` measures: the options, and which go together.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/basics.h"

namespace weft::measure {

enum class Tool : std::uint8_t { Ping, Blast };
/// Sockets: those of <weft/sockets.h>, with registered memory and posted operations.
enum class Over : std::uint8_t { RDMA, TCP, Sockets };
enum class Op : std::uint8_t { Send, Write, WriteImm, Read, WriteRead };
enum class Wait : std::uint8_t { Poll, Event, Memory, Block };
enum class Passive : std::uint8_t { Sleep, Poll };
enum class Signal : std::uint8_t { Full, Periodic, None };

std::string_view name_of(Tool);
std::string_view name_of(Over);
std::string_view name_of(Op);
std::string_view name_of(Wait);
std::string_view name_of(Passive);
std::string_view name_of(Signal);

inline constexpr std::uint64_t kSizeMax = 256u << 20;
inline constexpr std::uint32_t kOutstandingMax = 8192;
inline constexpr std::uint32_t kConnectionsMax = 256;
inline constexpr std::uint32_t kThreadsMax = 64;
inline constexpr std::size_t kSizesMax = 256;
inline constexpr std::uint64_t kCountMax = 1'000'000'000;
inline constexpr double kSecondsMin = 0.001, kSecondsMax = 3600;
/// Buffers of one side of one run, all connections together.
inline constexpr std::uint64_t kMemoryMax = std::uint64_t{4} << 30;

/// Of a congestion control's name, as the kernel has it.
inline constexpr std::size_t kCongestionMax = 15;

/// Credits that may be on their way: a quarter each of the receives, and rounding.
inline constexpr std::uint32_t kCreditsMax = 8;
/// Operations open on a socket beside the messages and their receives: marks, flushes.
inline constexpr std::uint32_t kOperationsBeside = 4;
/// Used receives are posted again so many at a time.
inline constexpr std::uint32_t kReceiveList = 8;

/// Everything that both sides have to agree on. The client's options make one, and it travels to
/// the server as JSON. Plain data.
struct Plan {
  Tool tool = Tool::Ping;
  Over over = Over::RDMA;
  Op op = Op::Send;
  std::vector<std::uint64_t> sizes{64};  ///< octets of a message, one measurement each
  Wait wait = Wait::Poll;
  Passive passive = Passive::Sleep;  ///< what the program does that one-sided work needs not
  bool inline_data = false;
  std::uint32_t outstanding = 1;
  std::uint32_t buffers = 0;   ///< that messages take in turn; 0: one for each outstanding
  std::uint32_t receives = 0;  ///< that wait for messages; 0: one for each outstanding
  std::uint32_t list = 1;      ///< work requests per post
  Signal signal = Signal::Full;
  bool both = false;
  std::uint32_t connections = 1;
  std::uint32_t threads = 1;
  bool verify = false;
  // Of the sockets, over TCP.
  std::uint32_t socket_buffers = 0;  ///< octets of each one's two buffers; 0: the system's choice
  std::uint64_t chunk = 0;           ///< octets that a call receives; 0: a message, or a list
  std::string congestion;            ///< control of it; empty: the system's
  std::uint64_t count = 0;  ///< messages (or round trips) of each connection; 0: by `seconds`
  double seconds = 1;       ///< of one measurement, about
  double warm_up = 0;       ///< seconds that unmeasured legs before it take, at least

  std::uint32_t buffer_count() const { return buffers == 0 ? outstanding : buffers; }
  /// Those that messages arrive in. Verified ones stay in a receive's own place until they were
  /// looked at.
  std::uint32_t target_count() const;
  /// Messages that may be on their way to receives.
  std::uint32_t window() const { return receives == 0 ? outstanding : receives; }
  /// Receives posted at most, so that one is there for every such message: credits take some too,
  /// and some wait to be posted again in a list.
  std::uint32_t receive_count() const { return window() + kCreditsMax + kReceiveList; }
  /// Operations that a socket has open at once, over Sockets.
  std::uint32_t operations() const {
    return outstanding + (two_sided() ? window() : 0) + kOperationsBeside;
  }
  std::uint64_t octets_max() const;
  /// Octets of a side's buffers, on each connection.
  std::uint64_t memory_octets() const;
  /// Whether a side sends messages: the client, unless they are fetched from the server.
  bool sends(bool client) const { return both || (op == Op::Read) != client; }
  /// Whether messages arrive at it.
  bool takes(bool client) const { return sends(!client); }
  /// Whether each message takes a receive at the other side.
  bool two_sided() const { return op == Op::Send || op == Op::WriteImm; }
  /// Whether the server's program takes no part while it is measured.
  bool server_is_passive() const;
  /// One in so many sends is signalled.
  std::uint32_t signal_every() const;
  /// How many one-way trips a round trip is: a Read moves the message once, from asking to having.
  double trips() const { return op == Op::Read && over != Over::TCP ? 1 : 2; }
};

/// A combination that makes no sense, and why.
struct Refusal {
  std::string_view name;
  bool (*applies)(const Plan&);
  std::string_view reason;  ///< one sentence without a full stop
};

/// Every combination that is refused; the first that applies is told.
extern const std::vector<Refusal> kRefusals;

/// The reason why `plan` cannot be measured, or empty. Looks at the combinations, not at ranges.
std::string_view refusal(const Plan& plan);

/// The form in which a plan travels and is reported.
nlohmann::json to_json(const Plan& plan);
/// Throws Failure, naming the field, unless `json` holds exactly what to_json writes, each within
/// its range, and no combination is refused. `json` may come from anyone.
Plan plan_from_json(const nlohmann::json& json);

/// Whether `text` can be the name of a congestion control, or is empty.
bool is_congestion(std::string_view text);

/// "64", "4K,1M" or "1-64K" (powers of two, both ends in). Throws Failure.
std::vector<std::uint64_t> parse_sizes(std::string_view text);

/// "0,2-3". Throws Failure.
std::vector<int> parse_cpus(std::string_view text);

/// The value of an enumeration called `text`, or empty.
template <typename Enum>
std::optional<Enum> value_of(std::string_view text) {
  for (unsigned i = 0; !name_of(static_cast<Enum>(i)).empty(); ++i) {
    if (name_of(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace weft::measure

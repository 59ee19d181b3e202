// Names, ranges and refusals.
#include "measure/plan.h"

#include <weft/sockets.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <span>

namespace weft::measure {
namespace {

constexpr int kCpusMax = 1024;

std::string_view pick(std::span<const std::string_view> names, std::size_t index) {
  return index < names.size() ? names[index] : std::string_view();
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string_view name_of(Tool value) {
  static constexpr std::string_view kNames[] = {"ping", "blast"};
  return pick(kNames, static_cast<std::size_t>(value));
}
std::string_view name_of(Over value) {
  static constexpr std::string_view kNames[] = {"rdma", "tcp", "sockets"};
  return pick(kNames, static_cast<std::size_t>(value));
}
std::string_view name_of(Op value) {
  static constexpr std::string_view kNames[] = {"send", "write", "write-imm", "read", "write-read"};
  return pick(kNames, static_cast<std::size_t>(value));
}
std::string_view name_of(Wait value) {
  static constexpr std::string_view kNames[] = {"poll", "event", "memory", "block"};
  return pick(kNames, static_cast<std::size_t>(value));
}
std::string_view name_of(Passive value) {
  static constexpr std::string_view kNames[] = {"sleep", "poll"};
  return pick(kNames, static_cast<std::size_t>(value));
}
std::string_view name_of(Signal value) {
  static constexpr std::string_view kNames[] = {"full", "periodic", "none"};
  return pick(kNames, static_cast<std::size_t>(value));
}

std::uint64_t Plan::octets_max() const {
  return *std::max_element(sizes.begin(), sizes.end());
}

std::uint32_t Plan::target_count() const {
  const bool own_places = verify && op == Op::Send && tool == Tool::Blast && over != Over::TCP;
  return own_places ? std::max(buffer_count(), receive_count()) : buffer_count();
}

std::uint64_t Plan::memory_octets() const {
  const std::uint64_t places = std::uint64_t{buffer_count()} + target_count();
  return octets_max() * places + 2 * chunk;
}

bool Plan::server_is_passive() const {
  if (over == Over::TCP || both) return false;
  if (op == Op::Read || op == Op::WriteRead) return true;
  return tool == Tool::Blast && op == Op::Write;
}

std::uint32_t Plan::signal_every() const {
  // What nobody waits for still fills the send queue until something behind it completes.
  constexpr std::uint32_t kSeldom = 64;
  switch (signal) {
    case Signal::Full:
      return 1;
    case Signal::Periodic:
      return std::max(1u, outstanding / 2);
    default:
      return kSeldom;
  }
}

const std::vector<Refusal> kRefusals = {
    // Plain TCP knows messages only as octets.
    {"tcp-op",
     [](const Plan& p) {
       const bool fetched = p.tool == Tool::Blast && p.op == Op::Read;
       return p.over == Over::TCP && p.op != Op::Send && !fetched;
     },
     "over TCP there is only --op send, and blast's read, where the server is asked and sends: a "
     "plain socket has no one-sided operations (--over sockets has)"},
    {"tcp-read-both",
     [](const Plan& p) { return p.over == Over::TCP && p.op == Op::Read && p.both; },
     "over TCP both directions of --both are the same: --op send"},
    {"tcp-inline", [](const Plan& p) { return p.over == Over::TCP && p.inline_data; },
     "--inline is a property of a work request; over TCP every message is copied by the call"},
    {"tcp-signal", [](const Plan& p) { return p.over == Over::TCP && p.signal != Signal::Full; },
     "--signal is about completions; over TCP a call that returned is done"},
    {"tcp-passive",
     [](const Plan& p) { return p.over == Over::TCP && p.passive != Passive::Sleep; },
     "--passive is about one-sided operations; over TCP both programs take part"},
    {"tcp-block-connections",
     [](const Plan& p) {
       return p.over == Over::TCP && p.wait == Wait::Block && p.connections != p.threads;
     },
     "a thread in a blocking call serves one connection: --wait block needs as many --threads as "
     "--connections"},
    {"tcp-block-both",
     [](const Plan& p) { return p.over == Over::TCP && p.wait == Wait::Block && p.both; },
     "a thread in a blocking send cannot receive: --both over TCP needs --wait poll or event"},
    // Sockets have what <weft/sockets.h> has.
    {"sockets-imm", [](const Plan& p) { return p.over == Over::Sockets && p.op == Op::WriteImm; },
     "immediate data belongs to the verbs: over sockets who writes and tells of it sends behind "
     "it, "
     "and --op write looks at the memory"},
    {"sockets-inline", [](const Plan& p) { return p.over == Over::Sockets && p.inline_data; },
     "--inline belongs to the verbs: posted operations of a socket take registered memory"},
    {"sockets-list", [](const Plan& p) { return p.over == Over::Sockets && p.list != 1; },
     "a call of <weft/sockets.h> posts one operation: over sockets there is --post single alone"},
    {"sockets-signal",
     [](const Plan& p) { return p.over == Over::Sockets && p.signal != Signal::Full; },
     "each posted operation of a socket gives its completion: over sockets there is --signal full "
     "alone"},
    {"sockets-passive",
     [](const Plan& p) { return p.over == Over::Sockets && p.passive != Passive::Sleep; },
     "iwarp_poll moves nothing while nothing of its own program's is open: over sockets there is "
     "--passive sleep alone"},
    {"sockets-operations",
     [](const Plan& p) { return p.over == Over::Sockets && p.operations() > IWARP_OPERATIONS_MAX; },
     "a socket has at most 4096 operations open, receives among them: fewer --outstanding or "
     "--receives"},
    {"sockets-ping-write-event",
     [](const Plan& p) {
       const bool sleeps = p.wait == Wait::Event || p.wait == Wait::Block;
       return p.over == Over::Sockets && p.tool == Tool::Ping && p.op == Op::Write && sleeps;
     },
     "a write tells its target nothing, so no event can end the wait: over sockets only --op send "
     "wakes the peer"},
    // Who sleeps for a completion, and what belongs to plain sockets.
    {"one-sleeper",
     [](const Plan& p) {
       return p.over != Over::TCP && p.wait == Wait::Block && p.connections != 1;
     },
     "only its own connection wakes a thread that sleeps in ibv_get_cq_event or iwarp_wait: but "
     "over TCP --wait block takes one connection"},
    {"plain-sockets",
     [](const Plan& p) {
       const bool any = p.socket_buffers != 0 || p.chunk != 0 || !p.congestion.empty();
       return p.over != Over::TCP && any;
     },
     "--socket-buffers, --chunk and --congestion are about plain sockets: they need --over tcp"},
    {"memory-ping-write",
     [](const Plan& p) {
       return p.wait == Wait::Memory && (p.tool != Tool::Ping || p.op != Op::Write);
     },
     "only RDMA Writes can be waited for by looking at memory alone: --wait memory is for ping "
     "with --op write"},
    {"receives-one-sided",
     [](const Plan& p) {
       const bool used = p.tool == Tool::Blast && p.over != Over::TCP && p.two_sided();
       return p.receives != 0 && p.window() != p.outstanding && !used;
     },
     "--receives is for blast with --op send or write-imm: nothing else takes one"},
    // Who waits for what.
    {"ping-write-event",
     [](const Plan& p) {
       const bool sleeps = p.wait == Wait::Event || p.wait == Wait::Block;
       return p.tool == Tool::Ping && p.op == Op::Write && sleeps;
     },
     "an RDMA Write tells its target nothing, so no event can end the wait: use --op write-imm, "
     "whose immediate data does"},
    {"passive-active",
     [](const Plan& p) {
       return p.passive != Passive::Sleep && p.over != Over::TCP && !p.server_is_passive();
     },
     "--passive is for a server that takes no part: --op read, ping's write-read, and blast's "
     "write without --both"},
    {"read-inline", [](const Plan& p) { return p.op == Op::Read && p.inline_data; },
     "an RDMA Read carries no data of its own that --inline could put into the work request"},
    {"read-signal",
     [](const Plan& p) {
       return (p.op == Op::Read || p.op == Op::WriteRead) && p.tool == Tool::Ping &&
              p.signal == Signal::None;
     },
     "only its completion tells that an RDMA Read has brought its data, so it cannot go without: "
     "--signal full"},
    {"blast-write-read",
     [](const Plan& p) { return p.tool == Tool::Blast && p.op == Op::WriteRead; },
     "writing and reading back is a round trip: it belongs to ping"},
    {"blast-unsignalled",
     [](const Plan& p) { return p.tool == Tool::Blast && p.signal == Signal::None; },
     "only a completion tells that a buffer may be used again: blast takes --signal full or "
     "periodic (one in n/2)"},
    {"read-verify-periodic",
     [](const Plan& p) {
       return p.tool == Tool::Blast && p.op == Op::Read && p.verify && p.signal != Signal::Full;
     },
     "each RDMA Read is verified when it completes: --verify needs --signal full"},
    // Ping has one message on its way.
    {"ping-outstanding", [](const Plan& p) { return p.tool == Tool::Ping && p.outstanding != 1; },
     "ping has one message outstanding on a connection, by its definition: --outstanding is for "
     "blast"},
    {"ping-list", [](const Plan& p) { return p.tool == Tool::Ping && p.list != 1; },
     "ping posts one message and waits for its answer, so there is no list: --post single"},
    {"ping-periodic",
     [](const Plan& p) { return p.tool == Tool::Ping && p.signal == Signal::Periodic; },
     "periodic signalling is one in n/2 of n outstanding, and ping has one: --signal full or none"},
    {"ping-both", [](const Plan& p) { return p.tool == Tool::Ping && p.both; },
     "ping goes both ways by its definition: --both is for blast"},
    {"ping-buffers", [](const Plan& p) { return p.tool == Tool::Ping && p.buffers > 1; },
     "ping uses one buffer for each direction: --buffers is for blast"},
    {"ping-chunk", [](const Plan& p) { return p.tool == Tool::Ping && p.chunk != 0; },
     "ping receives one message at a time: --chunk is for blast"},
    // Numbers that contradict one another.
    {"list-outstanding", [](const Plan& p) { return p.list > p.outstanding; },
     "a list of work requests has to fit into what may be outstanding: --post list:N with N at "
     "most --outstanding"},
    {"threads-connections", [](const Plan& p) { return p.connections % p.threads != 0; },
     "each thread serves the same number of connections: --connections has to be a multiple of "
     "--threads"},
    {"verify-buffers",
     [](const Plan& p) {
       const bool in_place = p.tool == Tool::Blast && p.op == Op::WriteImm;
       return p.verify &&
              (p.buffer_count() < p.outstanding || (in_place && p.buffer_count() < p.window()));
     },
     "--verify needs a buffer of its own for each message that is on its way: --buffers at least "
     "--outstanding (write-imm: and --receives)"},
    {"list-buffers",
     [](const Plan& p) { return p.over == Over::TCP && p.buffer_count() % p.list != 0; },
     "over TCP the messages of a list lie side by side: --buffers (or --outstanding) has to be a "
     "multiple of the list"},
    {"memory", [](const Plan& p) { return p.memory_octets() > kMemoryMax / p.connections; },
     "the buffers would take more than 4 GiB: fewer --outstanding, --buffers or --connections, or "
     "a smaller message"},
};

std::string_view refusal(const Plan& plan) {
  for (const Refusal& one : kRefusals) {
    if (one.applies(plan)) return one.reason;
  }
  return {};
}

namespace {

/// Reads a plan field by field; in the end nothing may be left over.
class Reader {
 public:
  explicit Reader(const nlohmann::json& json) : json_(json) {
    if (!json.is_object()) fail("the plan is not an object");
  }

  template <typename Enum>
  void read(const char* name, Enum* into) requires std::is_enum_v<Enum> {
    const auto& field = take(name);
    const auto value =
        field.is_string() ? value_of<Enum>(field.get_ref<const std::string&>()) : std::nullopt;
    if (!value) fail("the plan's {} is unknown", name);
    *into = *value;
  }
  void read(const char* name, bool* into) {
    const auto& field = take(name);
    if (!field.is_boolean()) fail("the plan's {} is neither true nor false", name);
    *into = field.get<bool>();
  }
  template <typename Number>
  void read(const char* name, Number* into, std::uint64_t least, std::uint64_t most) {
    const std::uint64_t value = number(take(name), name, least, most);
    *into = static_cast<Number>(value);
  }
  /// What the kernel may be asked for by name.
  void read_name(const char* name, std::string* into) {
    const auto& field = take(name);
    if (!field.is_string() || !is_congestion(field.get_ref<const std::string&>())) {
      fail("the plan's {} is no name", name);
    }
    *into = field.get<std::string>();
  }
  void read_seconds(const char* name, double* into, double least) {
    const auto& field = take(name);
    const double value = field.is_number() ? field.get<double>() : -1;
    if (!(value >= least && value <= kSecondsMax)) fail("the plan's {} is out of range", name);
    *into = value;
  }
  void read_sizes(const char* name, std::vector<std::uint64_t>* into) {
    const auto& field = take(name);
    if (!field.is_array() || field.empty() || field.size() > kSizesMax) {
      fail("the plan's {} is not a list of 1 to {} numbers", name, kSizesMax);
    }
    into->clear();
    for (const auto& one : field) into->push_back(number(one, name, 1, kSizeMax));
  }
  void finish() const {
    if (json_.size() != taken_) fail("the plan has fields that this side does not know");
  }

 private:
  const nlohmann::json& take(const char* name) {
    const auto found = json_.find(name);
    if (found == json_.end()) fail("the plan lacks {}", name);
    ++taken_;
    return *found;
  }
  static std::uint64_t number(const nlohmann::json& field, const char* name, std::uint64_t least,
                              std::uint64_t most) {
    if (!field.is_number_unsigned() || field.get<std::uint64_t>() < least ||
        field.get<std::uint64_t>() > most) {
      fail("the plan's {} is not a whole number from {} to {}", name, least, most);
    }
    return field.get<std::uint64_t>();
  }

  const nlohmann::json& json_;
  std::size_t taken_ = 0;
};

}  // namespace

nlohmann::json to_json(const Plan& plan) {
  return {{"tool", name_of(plan.tool)},
          {"over", name_of(plan.over)},
          {"op", name_of(plan.op)},
          {"sizes", plan.sizes},
          {"wait", name_of(plan.wait)},
          {"passive", name_of(plan.passive)},
          {"inline", plan.inline_data},
          {"outstanding", plan.outstanding},
          {"buffers", plan.buffer_count()},
          {"receives", plan.window()},
          {"list", plan.list},
          {"signal", name_of(plan.signal)},
          {"both", plan.both},
          {"connections", plan.connections},
          {"threads", plan.threads},
          {"verify", plan.verify},
          {"socket_buffers", plan.socket_buffers},
          {"chunk", plan.chunk},
          {"congestion", plan.congestion},
          {"count", plan.count},
          {"seconds", plan.seconds},
          {"warm_up", plan.warm_up}};
}

Plan plan_from_json(const nlohmann::json& json) {
  Plan plan;
  Reader reader(json);
  reader.read("tool", &plan.tool);
  reader.read("over", &plan.over);
  reader.read("op", &plan.op);
  reader.read_sizes("sizes", &plan.sizes);
  reader.read("wait", &plan.wait);
  reader.read("passive", &plan.passive);
  reader.read("inline", &plan.inline_data);
  reader.read("outstanding", &plan.outstanding, 1, kOutstandingMax);
  reader.read("buffers", &plan.buffers, 1, kOutstandingMax);
  reader.read("receives", &plan.receives, 1, kOutstandingMax);
  reader.read("list", &plan.list, 1, kOutstandingMax);
  reader.read("signal", &plan.signal);
  reader.read("both", &plan.both);
  reader.read("connections", &plan.connections, 1, kConnectionsMax);
  reader.read("threads", &plan.threads, 1, kThreadsMax);
  reader.read("verify", &plan.verify);
  reader.read("socket_buffers", &plan.socket_buffers, 0, kSizeMax);
  reader.read("chunk", &plan.chunk, 0, kSizeMax);
  reader.read_name("congestion", &plan.congestion);
  reader.read("count", &plan.count, 0, kCountMax);
  reader.read_seconds("seconds", &plan.seconds, kSecondsMin);
  reader.read_seconds("warm_up", &plan.warm_up, 0);
  reader.finish();
  if (const auto reason = refusal(plan); !reason.empty()) fail("{}", reason);
  return plan;
}

bool is_congestion(std::string_view text) {
  return text.size() <= kCongestionMax && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
         });
}

std::vector<std::uint64_t> parse_sizes(std::string_view text) {
  std::vector<std::uint64_t> sizes;
  const auto one = [&](std::string_view word) {
    const auto size = parse_size(word, kSizeMax);
    if (!size) fail("'{}' is not a size: 1 to 256M octets, as in 64, 4K, 1M", word);
    return *size;
  };
  std::string_view rest = text;
  while (true) {
    const auto comma = rest.find(',');
    const auto word = rest.substr(0, comma);
    if (const auto dash = word.find('-'); dash != word.npos) {
      const auto first = one(word.substr(0, dash));
      const auto last = one(word.substr(dash + 1));
      if (first > last) fail("'{}' runs backwards", word);
      for (auto size = first; size < last; size *= 2) sizes.push_back(size);
      sizes.push_back(last);
    } else {
      sizes.push_back(one(word));
    }
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (sizes.size() > kSizesMax) fail("more than {} sizes", kSizesMax);
  return sizes;
}

std::vector<int> parse_cpus(std::string_view text) {
  std::vector<int> cpus;
  std::string_view rest = text;
  while (true) {
    const auto comma = rest.find(',');
    const auto word = rest.substr(0, comma);
    const auto dash = word.find('-');
    const auto first = parse_number<int>(word.substr(0, dash));
    const auto last = dash == word.npos ? first : parse_number<int>(word.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kCpusMax) {
      fail("'{}' is not a list of CPUs, as in 0,2-3", text);
    }
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
    if (comma == rest.npos) return cpus;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace weft::measure

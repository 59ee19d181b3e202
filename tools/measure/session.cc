// Client and server. A leg: the client says what comes, both prepare, both work, both tell.
#include "measure/session.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <thread>

#include "measure/extended_runner.h"
#include "measure/rdma_runner.h"
#include "measure/runner.h"
#include "measure/sockets.h"
#include "measure/tcp_runner.h"

extern char** environ;

namespace weft::measure {
namespace {

using Runners = std::vector<std::unique_ptr<Runner>>;
using Json = nlohmann::json;

/// A client that says nothing for so long between two legs keeps others waiting.
constexpr int kSilenceSeconds = 60;

/// A side's connections, with what they were made from.
struct Connections {
  std::optional<LinkEvents> events;
  Runners runners;  // they go first
  std::string device;
};

SocketOptions socket_options(const Plan& plan) {
  if (plan.over == Over::TCP) return {plan.socket_buffers, plan.congestion, 0};
  extended_calls();  // who has them not hears of it before anything is opened
  return {0, {}, static_cast<int>(plan.operations())};
}

std::unique_ptr<Runner> make_socket_runner(const Plan& plan, Side side, int fd, Line& line) {
  return plan.over == Over::TCP ? make_tcp_runner(plan, side, fd)
                                : make_extended_runner(plan, side, fd, line);
}

// --- how many messages a leg has

constexpr std::uint64_t kFirstOctetsMax = 64u << 20;
constexpr int kGrowthsMax = 12;

/// The messages of the first, unmeasured leg.
std::uint64_t first_count(const Plan& plan, std::uint64_t octets) {
  const std::uint64_t wanted =
      plan.tool == Tool::Ping ? 64 : std::max<std::uint64_t>(2 * plan.outstanding, 64);
  const std::uint64_t count = std::clamp<std::uint64_t>(kFirstOctetsMax / octets, 1, wanted);
  return plan.count == 0 ? count : std::min(count, plan.count);
}

class Client {
 public:
  Client(const ClientOptions& options, const std::function<void(const Run&, const Row&)>& told,
         Run& run)
      : options_(options),
        told_(told),
        run_(run),
        plan_(run.plan),
        line_(Line::connect(options.host, options.port)) {}

  void measure() {
    try {
      line_.put(FrameKind::Hello, {{"plan", to_json(plan_)}, {"client", run_.client}});
      const Json ready = line_.get(FrameKind::Ready);
      if (const auto side = ready.find("server"); side != ready.end()) run_.server = *side;
      connect(ready);
      for (const std::uint64_t octets : plan_.sizes) measure_size(octets);
      line_.put(FrameKind::Bye);
    } catch (const Interrupted&) {
      line_.refuse("the other side was interrupted");
      throw;
    } catch (const RefusedByPeer&) {
      throw;
    } catch (const Failure& failure) {
      throw Failure(with_peers_reason(failure.what()));
    }
  }

 private:
  /// What broke here may have its cause there: the peer's word, or its end.
  std::string with_peers_reason(std::string here) {
    constexpr int kGraceMs = 500;
    try {
      if (line_.is_readable(kGraceMs)) line_.check_peer();
    } catch (const Failure& failure) {
      if (here == failure.what()) return here;
      return fmt::format("{} (here: {})", failure.what(), here);
    }
    line_.refuse(here);
    return here;
  }

  void connect(const Json& ready) {
    const auto port = ready.find("port");
    if (port == ready.end() || !port->is_number_unsigned() ||
        port->get<std::uint64_t>() - 1 >= 0xFFFF) {
      fail("the server named no port");
    }
    const auto number = port->get<std::uint16_t>();
    const std::string address = line_.peer_address();
    if (plan_.over == Over::RDMA) connections_.events.emplace([this] { line_.check_peer(); });
    for (std::uint32_t i = 0; i < plan_.connections; ++i) {
      if (plan_.over != Over::RDMA) {
        const int fd = connect_socket(address, number, socket_options(plan_));
        connections_.runners.push_back(make_socket_runner(plan_, Side::Client, fd, line_));
        continue;
      }
      auto runner = RdmaRunner::make(
          plan_, Side::Client, std::make_unique<RdmaLink>(*connections_.events, address, number));
      runner->establish(i, nullptr);
      run_.client["device"] = device_text(runner->device());
      connections_.runners.push_back(std::move(runner));
    }
  }

  void measure_size(std::uint64_t octets) {
    const double rate = warm_up(octets);
    const auto fitting = std::clamp(rate * plan_.seconds, 1.0, static_cast<double>(kCountMax));
    const auto count = plan_.count > 0 ? plan_.count : static_cast<std::uint64_t>(fitting);
    for (auto& runner : connections_.runners) {
      std::vector<std::uint64_t> room;
      room.reserve(std::min(options_.raw_max, count));
      runner->raw().swap(room);
    }
    run_.rows.emplace_back();
    Row& row = run_.rows.back();
    try {
      run_leg(octets, count, row);
    } catch (...) {
      collect(row);
      told_(run_, row);
      throw;
    }
    row.complete = true;
    collect(row);
    told_(run_, row);
  }

  /// Unmeasured legs: for as long as was asked for, then with each buffer at least once, for the
  /// kernel's first access to a page may take much longer than any other; and until one is long
  /// enough to tell how many messages the wanted time takes. Returns the last one's messages per
  /// second.
  double warm_up(std::uint64_t octets) {
    const double long_enough = plan_.count > 0 ? 0 : plan_.seconds / 10;
    const std::uint64_t all = plan_.warm_up > 0 ? plan_.target_count() : 0;
    std::uint64_t count = first_count(plan_, octets);
    double warmed = 0, rate = 0;
    for (int i = 0; i <= kGrowthsMax; ++i) {
      Row unmeasured;
      run_leg(octets, count, unmeasured);
      const double took = std::max(unmeasured.client.seconds, 1e-7);
      warmed += took;
      rate = static_cast<double>(count) / took;
      if (took >= long_enough && warmed >= plan_.warm_up && count >= all) break;
      const double next =
          std::max(took < long_enough ? 2 * long_enough : took, plan_.warm_up - warmed);
      const double growth = std::clamp(next / took, 1.0, 16.0);
      count = std::min(static_cast<std::uint64_t>(static_cast<double>(count) * growth), kCountMax);
      if (warmed >= plan_.warm_up) count = std::max(count, all);
    }
    return rate;
  }

  /// Fills `row`, as far as it came if it throws.
  void run_leg(std::uint64_t octets, std::uint64_t count, Row& row) {
    const Leg leg{octets, count, ++seed_};
    row.octets = octets;
    row.count = count;
    for (auto& runner : connections_.runners) runner->prepare(leg);
    line_.put(FrameKind::Leg, {{"octets", octets}, {"count", count}, {"seed", leg.seed}});
    line_.get(FrameKind::Ready, kSilenceSeconds);
    Crew crew(plan_, connections_.runners, line_, options_.cpus);
    const Usage before = usage_now();
    const std::uint64_t begin = now_ns();
    const auto stop = [&] {
      row.client.seconds = static_cast<double>(now_ns() - begin) * 1e-9;
      row.client.usage = usage_now().since(before);
    };
    try {
      crew.run();
    } catch (...) {
      stop();
      throw;
    }
    stop();
    line_.put(FrameKind::Finished);
    row.server = figures_from_json(line_.get(FrameKind::Result, kSilenceSeconds));
    for (auto& runner : connections_.runners) runner->check();
  }

  void collect(Row& row) {
    for (auto& runner : connections_.runners) {
      row.messages += runner->completed() * (plan_.both ? 2 : 1);
      row.trips.merge(runner->trips());
      row.raw.insert(row.raw.end(), runner->raw().begin(), runner->raw().end());
    }
  }

  const ClientOptions& options_;
  const std::function<void(const Run&, const Row&)>& told_;
  Run& run_;
  const Plan& plan_;
  Line line_;
  Connections connections_;
  std::uint64_t seed_ = 0;
};

class Server {
 public:
  Server(Line& line, const ServerOptions& options) : line_(line), options_(options) {}

  /// Returns how many legs there were.
  unsigned serve() {
    const Json hello = line_.get(FrameKind::Hello);
    const auto plan = hello.find("plan");
    if (plan == hello.end()) fail("the client sent no plan");
    plan_ = plan_from_json(*plan);
    accept_connections();
    unsigned legs = 0;
    while (true) {
      const Frame frame = line_.get_any(kSilenceSeconds);
      if (frame.kind == FrameKind::Bye) return legs;
      if (frame.kind != FrameKind::Leg) fail("the client sent a frame out of turn");
      serve_leg(frame.body);
      ++legs;
    }
  }
  const Plan& plan() const { return plan_; }

 private:
  void accept_connections() {
    const std::string address = line_.own_address();
    const auto tell = [&](std::uint16_t port) {
      line_.put(FrameKind::Ready, {{"port", port}, {"server", describe_side()}});
    };
    if (plan_.over != Over::RDMA) {
      const Listener listener = open_listener(address, socket_options(plan_));
      try {
        tell(listener.port);
        for (std::uint32_t i = 0; i < plan_.connections; ++i) {
          const int fd = accept_tcp(listener.fd, line_);
          connections_.runners.push_back(make_socket_runner(plan_, Side::Server, fd, line_));
        }
      } catch (...) {
        ::close(listener.fd);
        throw;
      }
      ::close(listener.fd);
      return;
    }
    LinkEvents& events = connections_.events.emplace([this] { line_.check_peer(); });
    const RdmaListener listener(events, address);
    tell(listener.port());
    for (std::uint32_t i = 0; i < plan_.connections; ++i) {
      const auto request = events.await(RDMA_CM_EVENT_CONNECT_REQUEST);
      auto runner =
          RdmaRunner::make(plan_, Side::Server, std::make_unique<RdmaLink>(events, request.id));
      runner->establish(i, &request);
      connections_.runners.push_back(std::move(runner));
    }
  }

  Leg read_leg(const Json& body) const {
    const auto number = [&](const char* name, std::uint64_t least, std::uint64_t most) {
      const auto field = body.find(name);
      if (field == body.end() || !field->is_number_unsigned() ||
          field->get<std::uint64_t>() < least || field->get<std::uint64_t>() > most) {
        fail("the client's leg has no {} within {} to {}", name, least, most);
      }
      return field->get<std::uint64_t>();
    };
    const Leg leg{number("octets", 1, kSizeMax), number("count", 1, kCountMax),
                  number("seed", 0, ~std::uint64_t{0})};
    if (leg.octets > plan_.octets_max()) fail("the client's leg is larger than its plan");
    return leg;
  }

  void serve_leg(const Json& body) {
    const Leg leg = read_leg(body);
    for (auto& runner : connections_.runners) runner->prepare(leg);
    SideFigures figures;
    const Usage before = usage_now();
    const std::uint64_t begin = now_ns();
    line_.put(FrameKind::Ready);
    if (!plan_.server_is_passive()) {
      Crew(plan_, connections_.runners, line_, options_.cpus).run();
    } else if (plan_.passive == Passive::Poll) {
      poll_until_told();
    }
    line_.get(FrameKind::Finished, std::nullopt);
    figures.seconds = static_cast<double>(now_ns() - begin) * 1e-9;
    figures.usage = usage_now().since(before);
    for (auto& runner : connections_.runners) runner->check();
    line_.put(FrameKind::Result, to_json(figures));
  }

  /// A program that waits for something else by polling its CQ, as many do.
  void poll_until_told() {
    constexpr unsigned kLookEvery = 4096;
    for (unsigned turn = 1;; ++turn) {
      for (auto& runner : connections_.runners) runner->step();
      if (turn % kLookEvery == 0 && (line_.is_readable() || interrupted())) return;
    }
  }

  Line& line_;
  const ServerOptions& options_;
  Plan plan_;
  Connections connections_;
};

/// The CPUs that this process may run on.
Json allowed_cpus() {
  Json list = Json::array();
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return list;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) list.push_back(cpu);
  }
  return list;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string text; std::getline(file, text);) {
    if (text.starts_with("model name")) {
      const auto colon = text.find(": ");
      if (colon != text.npos) return text.substr(colon + 2);
    }
  }
  return "unknown";
}

}  // namespace

Run run_client(const Plan& plan, const ClientOptions& options,
               const std::function<void(const Run&, const Row&)>& told) {
  Run run;
  run.plan = plan;
  run.client = describe_side();
  run.rows.reserve(plan.sizes.size());
  try {
    Client(options, told, run).measure();
  } catch (const Interrupted& failure) {
    run.error = failure.what();
    run.interrupted = true;
  } catch (const std::exception& failure) {
    run.error = failure.what();
  }
  return run;
}

bool run_server(const ServerOptions& options, const std::function<void(const std::string&)>& told) {
  LineListener listener(options.address, options.port);
  told(fmt::format("waiting for a client on port {}", listener.port()));
  bool good = false;
  do {
    Line line = listener.accept();
    Server server(line, options);
    good = false;
    try {
      const unsigned legs = server.serve();
      told(fmt::format("served {}: {}, {}", line.peer_address(), name_of(server.plan().tool),
                       legs == 1 ? "one leg" : fmt::format("{} legs", legs)));
      good = true;
    } catch (const Interrupted&) {
      line.refuse("the server was interrupted");
      throw;
    } catch (const std::exception& failure) {
      told(fmt::format("client {}: {}", line.peer_address(), failure.what()));
      line.refuse(failure.what());
    }
  } while (options.persistent);
  return good;
}

nlohmann::json describe_side() {
  utsname system{};
  ::uname(&system);
  Json settings = Json::object();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    if (const auto equals = variable.find('=');
        variable.starts_with("WEFT_") && equals != variable.npos) {
      settings[std::string(variable.substr(0, equals))] = variable.substr(equals + 1);
    }
  }
  return {{"host", system.nodename},
          {"kernel", fmt::format("{} {}", system.sysname, system.release)},
          {"machine", system.machine},
          {"cpu", cpu_model()},
          {"cpus", std::thread::hardware_concurrency()},
          {"may_use_cpus", allowed_cpus()},
          {"weft", WEFT_VERSION},
          {"verbs", verbs_library()},
          {"settings", std::move(settings)}};
}

nlohmann::json to_json(const SideFigures& figures) {
  const Usage& usage = figures.usage;
  return {{"seconds", figures.seconds},
          {"user_s", usage.user},
          {"system_s", usage.system},
          {"voluntary_switches", usage.voluntary},
          {"involuntary_switches", usage.involuntary},
          {"machine",
           {{"user_s", usage.machine.user},
            {"system_s", usage.machine.system},
            {"irq_s", usage.machine.irq},
            {"steal_s", usage.machine.steal},
            {"idle_s", usage.machine.idle}}}};
}

SideFigures figures_from_json(const nlohmann::json& json) {
  const auto number = [](const Json& object, const char* name) {
    const auto field = object.is_object() ? object.find(name) : object.end();
    if (!object.is_object() || field == object.end() || !field->is_number() ||
        !std::isfinite(field->get<double>())) {
      fail("the server's figures lack {}", name);
    }
    return field->get<double>();
  };
  const auto whole = [&](const char* name) {
    const double value = number(json, name);
    if (value < 0 || value > 1e18) fail("the server's {} is out of range", name);
    return static_cast<std::uint64_t>(value);
  };
  const auto machine = json.find("machine");
  if (machine == json.end()) fail("the server's figures lack machine");
  SideFigures figures;
  figures.seconds = number(json, "seconds");
  figures.usage = {
      number(json, "user_s"),
      number(json, "system_s"),
      whole("voluntary_switches"),
      whole("involuntary_switches"),
      {number(*machine, "user_s"), number(*machine, "system_s"), number(*machine, "irq_s"),
       number(*machine, "steal_s"), number(*machine, "idle_s")}};
  return figures;
}

}  // namespace weft::measure

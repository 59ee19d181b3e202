// weft ping, weft blast: options, and the two ways to run.
#include "weft/measure.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

#include "measure/line.h"
#include "measure/report.h"
#include "measure/runner.h"
#include "measure/session.h"
#include "weft/output.h"
#include "weft/run.h"
#include "weft/suggest.h"
#include "weft/verbs_choice.h"

namespace weft::tools {
namespace {

using measure::Op;
using measure::Plan;
using measure::Tool;

constexpr const char* kPingFooter = R"(
What is measured: one message goes to the server and one comes back, then the next. One-way time is
half of the time from before the posting of a message to when its answer is here (with --op read the
whole: the message moves once). Percentiles come from every round trip, within 0.4 %. CPU % is user
and system time of a side, all its threads, per second: 100 is one CPU kept busy.

Examples, in two terminals:
  weft ping                                      the server: waits for one client
  weft ping 127.0.0.1                            its client: Sends of 64 octets, busy polling
  weft ping 127.0.0.1 --op write --sweep 1-64K   RDMA Writes of 1, 2, 4 ... 65536 octets
  weft ping 127.0.0.1 --over tcp                 the baseline, by the same program
  weft run --sockets -- weft ping                a server for --over sockets too
  weft run --sockets -- weft ping 127.0.0.1 --over sockets --op write
)";

constexpr const char* kBlastFooter = R"(
What is measured: messages go to the server as fast as may be, N of them outstanding. Throughput is
the octets of all messages, without headers, over the time from the first posting to when the last
octet is known to have arrived. CPU % is user and system time of a side, all its threads, per
second: 100 is one CPU kept busy. CPUs per Gb/s is that over the throughput.

Examples, in two terminals:
  weft blast --persistent                        the server, for many clients
  weft blast 127.0.0.1 --op write --size 64K --outstanding 128
  weft blast 127.0.0.1 --op send --wait event --signal periodic --sweep 1K-1M
  weft blast 127.0.0.1 --over tcp --size 64K     the baseline, by the same program
  weft run --sockets -- weft blast               a server for --over sockets too
  weft run --sockets -- weft blast 127.0.0.1 --over sockets --op write
)";

template <typename Enum>
std::string choices() {
  std::string all;
  for (unsigned i = 0; !measure::name_of(static_cast<Enum>(i)).empty(); ++i) {
    all += all.empty() ? "" : "|";
    all += measure::name_of(static_cast<Enum>(i));
  }
  return all;
}

/// "single", "list" (half of what is outstanding), "list:8"
std::uint32_t parse_post(std::string_view text, std::uint32_t outstanding) {
  if (text == "single") return 1;
  if (text == "list") return std::max(1u, outstanding / 2);
  std::uint32_t list = 0;
  if (text.starts_with("list:")) {
    text.remove_prefix(5);
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), list);
    if (error != std::errc() || rest != text.data() + text.size()) list = 0;
  }
  if (list == 0 || list > measure::kOutstandingMax) {
    measure::fail("--post takes single, list, or list:N with N from 1 to {}",
                  measure::kOutstandingMax);
  }
  return list;
}

/// 0 if nothing was said.
std::uint64_t parse_octets(const char* option, const std::string& text) {
  if (text.empty()) return 0;
  const auto octets = measure::parse_size(text, measure::kSizeMax);
  if (!octets) measure::fail("{} takes 1 to 256M octets, not {}", option, text);
  return *octets;
}

/// NaN is neither below a range nor above it: CLI::Range takes it.
auto seconds_from(double least) {
  return [least](const std::string& text) {
    double seconds = 0;
    const bool good = CLI::detail::lexical_cast(text, seconds) && seconds >= least &&
                      seconds <= measure::kSecondsMax;
    return good ? std::string()
                : fmt::format("it takes {} to {} seconds, not {}", least, measure::kSecondsMax,
                              text);
  };
}

/// CLI11 would only say that it could not convert.
std::string check_port(const std::string& text) {
  std::uint16_t port = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool good = error == std::errc() && rest == text.data() + text.size();
  return good ? std::string() : fmt::format("it takes 0 to 65535, not {}", text);
}

template <typename Enum>
Enum choose(const char* option, const std::string& text) {
  const auto value = measure::value_of<Enum>(text);
  if (!value) measure::fail("{} takes {}, not {}", option, choices<Enum>(), text);
  return *value;
}

int report_failure(const std::string& text) {
  complain(text);
  return 1;
}

int serve(const MeasureOptions& options) {
  const measure::ServerOptions server{
      .address = options.bind,
      .port = options.port,
      .cpus = options.pin.empty() ? std::vector<int>() : measure::parse_cpus(options.pin),
      .persistent = options.persistent};
  try {
    const bool good = measure::run_server(server, [](const std::string& text) {
      // A server serves on where nobody reads that: the figures are at its client.
      put_output(fmt::format("weft: {}\n", text));
    });
    return good ? 0 : 1;
  } catch (const measure::Interrupted&) {
    return options.persistent ? 0 : 130;  // there is no other way to end it
  } catch (const measure::Failure& failure) {
    return report_failure(failure.what());
  }
}

int measure_as_client(const MeasureOptions& options) {
  measure::ClientOptions client{
      .host = options.address,
      .port = options.port,
      .cpus = options.pin.empty() ? std::vector<int>() : measure::parse_cpus(options.pin),
      .raw_max = options.raw};
  const bool table = options.json != "-";
  if (table && !options.json.empty()) {
    try {
      measure::try_file(options.json);
    } catch (const measure::Failure& failure) {
      return report_failure(failure.what());
    }
  }
  int table_error = 0;
  const auto show = [&](const measure::Run& so_far, const measure::Row& row) {
    if (!table || table_error != 0) return;
    const auto head = so_far.rows.size() == 1 ? measure::table_head(so_far.plan) : std::string();
    table_error = put_output(head + measure::table_line(so_far.plan, row));
    // Nobody would see what else there is to measure. After a row that was cut short nothing is.
    if (table_error != 0 && row.complete) {
      measure::fail("cannot write the table: {}", std::strerror(table_error));
    }
  };
  const auto run = measure::run_client(options.plan, client, show);
  int status = run.error.empty() ? 0 : run.interrupted ? 130 : 1;
  if (!run.error.empty()) {
    const bool shown = table && table_error == 0 && !run.rows.empty();
    complain(run.error + (shown ? "; what was measured until then stands above" : ""));
  }
  if (!options.json.empty()) {
    const std::string text = measure::to_json(run).dump(1) + "\n";
    if (!table) {
      if (!write_output("the report", text)) return 1;
    } else {
      try {
        measure::write_file(options.json, text);
      } catch (const measure::Failure& failure) {
        status = report_failure(failure.what());
      }
    }
  }
  return status;
}

}  // namespace

void add_measure_options(CLI::App& app, Tool tool, MeasureOptions& options) {
  const bool ping = tool == Tool::Ping;
  options.plan.tool = tool;
  options.port = measure::kPort;
  if (!ping) {
    options.plan.outstanding = 16;
    options.op = "write";
    options.size = "64K";
  } else {
    options.size = "64";
  }
  app.footer(ping ? kPingFooter : kBlastFooter);
  app.add_option("address", options.address, "the server's name or address; else be the server");
  app.add_option("--port", options.port,
                 "the server's TCP port, where the two sides agree; 0 (server): a free one, which "
                 "it names")
      ->check(check_port)
      ->capture_default_str();
  const char* const kServer = "Server";
  app.add_option("--bind", options.bind, "listen at this address alone")
      ->type_name("ADDRESS")
      ->group(kServer);
  app.add_flag("--persistent", options.persistent, "serve one client after the other")
      ->group(kServer);
  const char* const kWork = "What is measured (client)";
  const auto choice = [&](const char* name, std::string& into, const std::string& values,
                          const char* help) {
    app.add_option(name, into, help)->type_name(values)->capture_default_str()->group(kWork);
  };
  choice("--over", options.over, choices<measure::Over>(),
         "RDMA; plain sockets; sockets with registered memory (both sides by weft run --sockets)");
  choice("--op", options.op, ping ? choices<Op>() : "send|write|write-imm|read",
         ping ? "how messages move; write-read: the client writes and reads back"
              : "how messages move");
  app.add_option("--size", options.size, "octets of a message: 64, 4K, 1M; or a list")
      ->capture_default_str()
      ->group(kWork);
  app.add_option("--sweep", options.sweep, "sizes by powers of two: 1-1M; or a list")
      ->type_name("A-B")
      ->excludes("--size")
      ->group(kWork);
  app.add_option("-n,--count", options.plan.count, "messages of each measurement and connection")
      ->check(CLI::Range(std::uint64_t{1}, measure::kCountMax))
      ->group(kWork);
  app.add_option("--time", options.plan.seconds, "or: about so many seconds each")
      ->check(seconds_from(measure::kSecondsMin))
      ->capture_default_str()
      ->excludes("--count")
      ->group(kWork);
  app.add_option("--warm-up", options.plan.warm_up,
                 "seconds at least of what is not measured, before each measurement")
      ->check(seconds_from(0))
      ->group(kWork);
  choice("--wait", options.wait, choices<measure::Wait>(),
         "poll: busy; event: sleep until notified; memory (ping by write): busy, looking at the "
         "memory alone; block: in the calls (recv, send; ibv_get_cq_event)");
  choice("--passive", options.passive, choices<measure::Passive>(),
         "what the server's program does when one-sided work needs it not");
  app.add_flag("--inline", options.plan.inline_data, "data goes in the work request")->group(kWork);
  choice("--signal", options.signal, choices<measure::Signal>(),
         "which work requests give a completion; periodic: one in n/2");
  const auto number = [&](const char* name, std::uint32_t& into, std::uint32_t most,
                          const char* help) {
    app.add_option(name, into, help)
        ->check(CLI::Range(1u, most))
        ->capture_default_str()
        ->group(kWork);
  };
  number("--outstanding", options.plan.outstanding, measure::kOutstandingMax,
         "messages posted and not complete, at most (blast)");
  app.add_option("--buffers", options.plan.buffers,
                 "buffers that messages take in turn; else as many as are outstanding (blast)")
      ->check(CLI::Range(1u, measure::kOutstandingMax))
      ->group(kWork);
  app.add_option("--receives", options.plan.receives,
                 "receives posted for messages; else as many as are outstanding (blast)")
      ->check(CLI::Range(1u, measure::kOutstandingMax))
      ->group(kWork);
  choice("--post", options.post, "single|list|list:N", "work requests per post (blast)");
  app.add_flag("--both", options.plan.both, "both directions at once (blast)")->group(kWork);
  number("--connections", options.plan.connections, measure::kConnectionsMax,
         "connections that work at once");
  number("--threads", options.plan.threads, measure::kThreadsMax, "threads of each side");
  app.add_option("--socket-buffers", options.socket_buffers,
                 "octets of each socket's two buffers, over TCP; else the system's choice")
      ->type_name("SIZE")
      ->group(kWork);
  app.add_option("--chunk", options.chunk,
                 "octets that a call receives, over TCP; else a message, or a list (blast)")
      ->type_name("SIZE")
      ->group(kWork);
  app.add_option("--congestion", options.plan.congestion,
                 "congestion control of the sockets, over TCP; else the system's")
      ->type_name("NAME")
      ->group(kWork);
  app.add_flag("--verify", options.plan.verify, "look at every octet (and count the time for it)")
      ->group(kWork);
  const char* const kRun = "This side";
  app.add_option("--pin", options.pin, "CPUs for this side: 0,2-3; threads take them in turn")
      ->type_name("CPUS")
      ->group(kRun);
  app.add_option("--json", options.json, "report for programs; -: instead of the table (client)")
      ->type_name("FILE")
      ->group(kRun);
  app.add_option("--raw", options.raw, "so many round trips one by one in that report (ping)")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 24))
      ->group(kRun);
  app.add_option("--verbs", options.verbs, "whose libibverbs: weft's, the system's, or in a folder")
      ->type_name("weft|system|/FOLDER")
      ->capture_default_str()
      ->group(kRun);
  add_run_options(app, "Settings of weft (this side); on|off may be left out, and means on");
}

std::string settle(const CLI::App& app, MeasureOptions& options) {
  const bool server = options.address.empty();
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    const auto& name = option->get_name();
    for (const auto& result : option->results()) {
      if (!result.empty()) continue;
      // As in weft ping "$HOST" without a HOST: to go on as if it were not there, as a server or
      // without a report, is not what was meant.
      return fmt::format("{} is empty: leave it out, or say what it is", name);
    }
    if (server && option->get_group() == "What is measured (client)") {
      return fmt::format(
          "{} is the client's to say, which then tells the server: it needs an "
          "address",
          name);
    }
    if (server && (name == "--json" || name == "--raw")) {
      return fmt::format("{} is the client's: its report shows both sides", name);
    }
    if (!server && option->get_group() == "Server") {
      return fmt::format("{} is for a server, which has no address to connect to", name);
    }
  }
  if (!server && options.port == 0) {
    return "--port takes 1 to 65535 here: the port that the server has";
  }
  if (options.raw > 0 && options.json.empty()) return "--raw needs --json, where it is written";
  Plan& plan = options.plan;
  if (options.raw > 0 && plan.tool != Tool::Ping) return "--raw is for ping, which has round trips";
  if (options.verbs != "weft" && options.verbs != "system" && !options.verbs.starts_with('/')) {
    return "--verbs takes weft, system, or a folder that begins with /";
  }
  if (options.verbs != "weft") {
    if (const auto setting = given_setting(app); !setting.empty()) {
      return fmt::format("{} is a setting of weft's libraries: it cannot go with --verbs {}",
                         setting, options.verbs);
    }
  }
  try {
    plan.over = choose<measure::Over>("--over", options.over);
    // Over TCP there is one operation, which nobody has to name.
    if (plan.over == measure::Over::TCP && app.count("--op") == 0) options.op = "send";
    plan.op = choose<Op>("--op", options.op);
    plan.wait = choose<measure::Wait>("--wait", options.wait);
    plan.passive = choose<measure::Passive>("--passive", options.passive);
    plan.signal = choose<measure::Signal>("--signal", options.signal);
    plan.list = parse_post(options.post, plan.outstanding);
    plan.sizes = measure::parse_sizes(options.sweep.empty() ? options.size : options.sweep);
    plan.socket_buffers =
        static_cast<std::uint32_t>(parse_octets("--socket-buffers", options.socket_buffers));
    plan.chunk = parse_octets("--chunk", options.chunk);
    if (!measure::is_congestion(plan.congestion)) {
      return fmt::format("--congestion takes a name such as cubic, not {}", plan.congestion);
    }
    if (!options.pin.empty()) measure::parse_cpus(options.pin);
  } catch (const measure::Failure& failure) {
    return failure.what();
  }
  return std::string(measure::refusal(plan));
}

int measure_command(const CLI::App& app, MeasureOptions& options,
                    const std::vector<std::string>& words) {
  const std::string help = "weft " + app.get_name() + " --help";
  if (const auto fault = settle(app, options); !fault.empty()) return usage_error(fault, help);
  apply_settings(app);
  if (const auto fault = choose_verbs(options.verbs, words); !fault.empty()) {
    return report_failure(fault);
  }
  measure::catch_interrupts();
  try {
    // Before any device is opened, so that its threads stay there as well.
    if (!options.pin.empty()) measure::pin(measure::parse_cpus(options.pin));
  } catch (const measure::Failure& failure) {
    return report_failure(failure.what());
  }
  return options.address.empty() ? serve(options) : measure_as_client(options);
}

}  // namespace weft::tools

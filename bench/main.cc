// weft_bench: starts the two ends as processes of their own and prints what the leader finds.
//
// This process opens no device and has no thread: the ends are forked before anything is set up, so
// each has its own libraries' state, and one pass's settings cannot reach the next.
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "bench/ends.h"
#include "bench/network.h"
#include "bench/report.h"

namespace weft::bench {
namespace {

using nlohmann::json;

constexpr int kLookMs = 100;

/// Messages from an end to this process: one JSON text per packet.
void tell(int fd, const json& message) {
  const std::string text = message.dump();
  if (::send(fd, text.data(), text.size(), MSG_NOSIGNAL) < 0) std::_Exit(1);
}

[[noreturn]] void run_end(unsigned end, const Options& options, int control_fd, int report_fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  pin(end);
  try {
    Control control(control_fd);
    if (end == 0) {
      lead(options, control,
           {[&](const std::string& device) { tell(report_fd, {{"device", device}}); },
            [&](const Point& point) { tell(report_fd, {{"step", point_text(point)}}); },
            [&](const Result& result) { tell(report_fd, {{"result", to_json(result)}}); }});
    } else {
      follow(options, control);
    }
  } catch (const std::exception& error) {
    tell(report_fd, {{"error", error.what()}, {"end", end == 0 ? "leader" : "follower"}});
    std::_Exit(1);
  }
  std::_Exit(0);
}

/// One pass: both ends with one setting of the CRC.
class Pass {
 public:
  Pass(const Options& options, std::string crc, json& results)
      : options_(options), crc_(std::move(crc)), table_(is_table(options)), results_(results) {}

  static bool is_table(const Options& options) { return options.json != "-" && !options.lines; }

  /// False: it failed, and why has been printed.
  bool run() {
    int control[2], reports[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0 ||
        ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, reports) != 0) {
      fmt::print(stderr, "weft_bench: socketpair: {}\n", std::strerror(errno));
      return false;
    }
    ::setenv("WEFT_CRC", crc_.c_str(), 1);
    std::fflush(nullptr);
    for (unsigned end = 0; end < 2; ++end) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::close(reports[0]);
        ::close(control[1 - end]);
        run_end(end, options_, control[end], reports[1]);
      }
      children_[end] = child;
    }
    ::close(control[0]);
    ::close(control[1]);
    ::close(reports[1]);
    collect(reports[0]);
    ::close(reports[0]);
    reap();
    clear_progress();
    if (!error_.empty()) fmt::print(stderr, "weft_bench: {}\n", error_);
    return error_.empty();
  }

 private:
  void collect(int fd) {
    std::array<char, 64 * 1024> text;
    while (true) {
      pollfd wait{fd, POLLIN, 0};
      ::poll(&wait, 1, kLookMs);
      const ssize_t got = ::recv(fd, text.data(), text.size(), MSG_DONTWAIT);
      if (got == 0) return;
      if (got > 0) {
        take(json::parse(text.begin(), text.begin() + got));
        continue;
      }
      look_after_children();
    }
  }

  void take(const json& message) {
    if (message.contains("error")) {
      // The first is the cause; the other end then only sees that this one is gone.
      if (error_.empty()) {
        error_ = fmt::format("{}{}: {}", message.at("end").get<std::string>(),
                             step_.empty() ? std::string() : " in " + step_,
                             message.at("error").get<std::string>());
      }
      stop();
    } else if (message.contains("step")) {
      step_ = message.at("step");
      if (::isatty(STDERR_FILENO)) fmt::print(stderr, "\r\033[K{} ...", step_);
    } else if (message.contains("device")) {
      results_["setup"]["device"] = message.at("device");
      if (options_.lines) {
        fmt::print("{}\n", json{{"setup", results_["setup"]}}.dump());
        std::fflush(stdout);
      }
      if (table_) fmt::print("\ndevice    {}\n", message.at("device").get<std::string>());
    } else {
      json row = message.at("result");
      const Result result = result_from_json(row);
      clear_progress();
      if (table_ && (first_ || result.point.work != last_)) {
        print_heading(result.point.work, crc_);
      }
      if (table_) print_row(result);
      first_ = false;
      last_ = result.point.work;
      row["crc"] = crc_;
      if (options_.lines) {
        fmt::print("{}\n", row.dump());
        std::fflush(stdout);
      }
      results_["results"].push_back(row);
    }
  }

  /// An end that died without a word (a signal, the watchdog) takes the other with it.
  void look_after_children() {
    for (unsigned end = 0; end < 2; ++end) {
      int status = 0;
      if (children_[end] <= 0 || ::waitpid(children_[end], &status, WNOHANG) != children_[end]) {
        continue;
      }
      children_[end] = 0;
      if (!WIFSIGNALED(status) || !error_.empty()) continue;
      const int by = WTERMSIG(status);
      error_ = fmt::format("{} in {}: {}", end == 0 ? "leader" : "follower",
                           step_.empty() ? "setting up" : step_,
                           by == SIGALRM ? std::string("no end in sight; gave up")
                                         : fmt::format("killed by {}", ::strsignal(by)));
      stop();
    }
  }

  void stop() {
    for (const pid_t child : children_) {
      if (child > 0) ::kill(child, SIGKILL);
    }
  }

  void reap() {
    for (pid_t& child : children_) {
      int status = 0;
      if (child > 0 && ::waitpid(child, &status, 0) == child && error_.empty() &&
          !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
        error_ = fmt::format("an end stopped with status {:#x}", status);
      }
      child = 0;
    }
  }

  static void clear_progress() {
    if (::isatty(STDERR_FILENO)) fmt::print(stderr, "\r\033[K");
  }

  const Options& options_;
  std::string crc_;
  bool table_;
  json& results_;
  std::array<pid_t, 2> children_{};
  std::string step_, error_;
  bool first_ = true;
  Work last_{};
};

int run_main(int argc, char** argv) {
  Options options;
  if (const auto status = parse_options(argc, argv, &options)) return *status;
  try {
    if (!options.congestion.empty()) enter_own_network(options.congestion);
  } catch (const Failure& failure) {
    fmt::print(stderr, "weft_bench: {}\n", failure.what());
    return 1;
  }
  const bool table = Pass::is_table(options);
  json results = {{"setup", describe_setup(options)}, {"results", json::array()}};
  if (table) print_setup(results["setup"]);
  for (const std::string& crc : options.crc) {
    if (!Pass(options, crc, results).run()) return 1;
  }
  if (options.json.empty()) return 0;
  const std::string text = results.dump(2) + "\n";
  if (options.json == "-") {
    std::fputs(text.c_str(), stdout);
    return 0;
  }
  std::ofstream out(options.json);
  out << text;
  out.close();
  if (!out) {
    fmt::print(stderr, "weft_bench: cannot write {}\n", options.json);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) { return weft::bench::run_main(argc, argv); }

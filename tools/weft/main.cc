// weft: the one program. Reads the command line and hands over to the command.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "weft/devices.h"
#include "weft/measure.h"
#include "weft/output.h"
#include "weft/run.h"
#include "weft/study.h"
#include "weft/suggest.h"

namespace weft::tools {
namespace {

constexpr const char* kExamples = R"(
Examples, in two terminals of one machine:
  weft run -- rping -s -a 127.0.0.1 -v -C 10         a stock RDMA server, unmodified
  weft run -- rping -c -a 127.0.0.1 -v -C 10         its client

  weft run -- ib_write_bw -R                         throughput; then, in the other terminal:
  weft run -- ib_write_bw -R 127.0.0.1

  weft run --sockets --iwarp-port 6379 -- redis-server --port 6379
                                                     a sockets program, over iWARP

  weft run --crc off --markers on -- ib_send_lat -R  settings hold for one program
  weft devices --json                                what there is, for scripts

  weft ping                                          latency: a server, and its client
  weft ping 127.0.0.1
  weft blast 127.0.0.1 --op write --size 64K         throughput (its server: weft blast)
  weft study --quick                                 both, hundreds of times: a page with plots

Settings may also stand in the environment (WEFT_CRC=off); options win. See: weft run --help
)";

constexpr const char* kRunFooter = R"(
An option that takes on|off may stand without: on. Options end at -- or at the program's name;
what follows is the program's own. The exit status is the program's; 127: there is no such program,
126: it cannot be run, 2: an option is wrong.

Examples:
  weft run -- ibv_devinfo
  weft run --engine inline --markers on -- rping -s -a 127.0.0.1 -v
)";

/// CLI11 would leave out what follows the options: it never sees that.
struct RunFormatter final : CLI::Formatter {
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: weft run [OPTIONS] [--] PROGRAM [ARGUMENTS]...\n";
  }
};

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// What is wrong with a word that no option or command took.
std::string unknown_word(const CLI::App& app, const std::string& word) {
  if (word.size() > 1 && word.front() == '-') {
    const auto bare = word.substr(0, word.find('='));
    return fmt::format("unknown option {}{}", bare, did_you_mean(bare, option_names(app)));
  }
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
  if (commands.empty()) return fmt::format("{} takes no argument {}", app.get_name(), word);
  return fmt::format("unknown command {}{}", word, did_you_mean(word, commands));
}

int run_main(int argc, char** argv) {
  CLI::App app{"weft: RDMA for every machine, with no RDMA hardware, no kernel module and no root",
               "weft"};
  app.footer(kExamples);
  app.set_version_flag("--version", std::string("weft ") + WEFT_VERSION);
  app.allow_extras();

  CLI::App* run = app.add_subcommand("run", "run a program with weft's RDMA libraries in front");
  run->formatter(std::make_shared<RunFormatter>());
  run->footer(kRunFooter);
  run->allow_extras();
  add_run_options(*run);
  run->add_flag("--sockets")
      ->description("put iWARP beneath the program's sockets, where --iwarp-port says so");

  bool json = false;
  CLI::App* devices = app.add_subcommand("devices", "list the RDMA devices of this machine");
  devices->add_flag("--json", json, "for programs");
  devices->allow_extras();

  MeasureOptions ping_options, blast_options;
  CLI::App* ping = app.add_subcommand("ping", "measure latency: one message to and fro");
  add_measure_options(*ping, measure::Tool::Ping, ping_options);
  ping->allow_extras();
  CLI::App* blast = app.add_subcommand("blast", "measure throughput: as many messages as may be");
  add_measure_options(*blast, measure::Tool::Blast, blast_options);
  blast->allow_extras();

  // Its options are its own, and so is its help.
  CLI::App* study = app.add_subcommand("study", "what four papers measured, here: a page");
  study->prefix_command();
  study->set_help_flag();

  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) {
    std::fputs(app.help().c_str(), stderr);
    return 2;
  }
  RunArguments split;
  if (words[0] == "run") {
    split = split_run_arguments(*run, {words.begin() + 1, words.end()});
    words.assign(1, "run");
    words.insert(words.end(), split.options.begin(), split.options.end());
  }
  for (const CLI::App* command_app : {ping, blast}) {
    if (words[0] == command_app->get_name()) words = complete_switches(*command_app, words);
  }
  const auto help_of = [&] {
    const auto parsed = app.get_subcommands();
    return parsed.empty() ? std::string("weft --help")
                          : "weft " + parsed.front()->get_name() + " --help";
  };
  try {
    std::reverse(words.begin(), words.end());  // the order in which CLI11 takes a vector
    app.parse(words);
  } catch (const CLI::Success& wanted) {
    std::ostringstream text;  // --help and --version
    const int status = app.exit(wanted, text);
    return write_output("to standard output", text.str()) ? status : 1;
  } catch (const CLI::ParseError& error) {
    return usage_error(error.what(), help_of());
  }
  const auto check = [](const CLI::App& parsed, const std::string& help) {
    const auto extra = parsed.remaining();
    return extra.empty() ? 0 : usage_error(unknown_word(parsed, extra.front()), help);
  };
  for (const CLI::App* parsed : app.get_subcommands()) {
    if (parsed == study) continue;
    if (check(*parsed, "weft " + parsed->get_name() + " --help") != 0) return 2;
  }
  if (check(app, "weft --help") != 0) return 2;
  if (const auto fault = environment_fault(); !fault.empty()) {
    return usage_error(fault, "weft run --help");  // which lists the settings
  }
  if (run->parsed()) return exec_command(*run, split);
  if (devices->parsed()) return list_devices(json);
  const std::vector<std::string> whole(argv, argv + argc);
  if (ping->parsed()) return measure_command(*ping, ping_options, whole);
  if (blast->parsed()) return measure_command(*blast, blast_options, whole);
  if (study->parsed()) return study_command({argv + 2, argv + argc});
  return usage_error("which command? There are run, devices, ping, blast and study");
}

}  // namespace
}  // namespace weft::tools

int main(int argc, char** argv) try {
  if (!weft::tools::fill_standard_descriptors()) return 1;
  return weft::tools::run_main(argc, argv);
} catch (const std::exception& problem) {
  // What nobody foresaw is an error with a message, and not an abort.
  weft::tools::complain(problem.what());
  return 1;
}

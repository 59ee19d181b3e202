// weft run: starts a program with the drop-in libraries in front.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace weft::tools {

/// Where `weft run OPTIONS COMMAND...` divides.
struct RunArguments {
  std::vector<std::string> options;  ///< for CLI11; an on|off option without value is made "=on"
  std::vector<std::string> command;  ///< the program and its own arguments, untouched
  std::string bare_switch;  ///< an on|off option right before the program, without value; or empty
};

/// Options end at "--" or at the first word that is neither an option nor an option's value, so
/// that the program's options need no quoting. `arguments` is what follows "run".
RunArguments split_run_arguments(const CLI::App& run, const std::vector<std::string>& arguments);

/// Adds one option per WEFT_* setting (WEFT_ENGINE is --engine) to a command, in a group of its
/// help.
void add_run_options(CLI::App& app, const std::string& group = "OPTIONS");

/// Puts what those options say into the environment.
void apply_settings(const CLI::App& app);

/// The first of those options that was given, or empty.
std::string given_setting(const CLI::App& app);

/// A command's words with "=on" behind an on|off option that has no value.
std::vector<std::string> complete_switches(const CLI::App& app,
                                           const std::vector<std::string>& words);

/// The first WEFT_* variable that is unknown or has a value that cannot be, as a sentence; else
/// empty. The libraries would refuse it too, but only after a program has started.
std::string environment_fault();

/// Sets the environment and becomes the command. Returns only on failure: 2 usage, 126 the program
/// cannot be run, 127 there is no such program.
int exec_command(const CLI::App& run, const RunArguments& arguments);

}  // namespace weft::tools

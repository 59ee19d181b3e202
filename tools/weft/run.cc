// weft run: starts a program with the drop-in libraries in front.
#include "weft/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <weft/settings.h>

#include "weft/suggest.h"
#include "weft/verbs_choice.h"

namespace weft::tools {
namespace {

constexpr std::string_view kHelpCommand = "weft run --help";

/// WEFT_STRICT_RECEIVE -> --strict-receive
std::string option_name(const Setting& setting) {
  std::string name = "--";
  for (char c : setting.name.substr(kSettingPrefix.size())) {
    name += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

/// An option that may stand several times, and then means all of it.
bool is_list(const Setting& setting) {
  return setting.values.ends_with("PORTS") || setting.values.ends_with("ADDRESSES") ||
         setting.values.ends_with("NAMES");
}

bool is_switch(const CLI::Option& option) {
  return option.get_type_name() == "on|off";
}

}  // namespace

std::string environment_fault() {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    if (variable.substr(0, kSettingPrefix.size()) != kSettingPrefix) continue;
    const auto equals = variable.find('=');
    const auto name = variable.substr(0, equals);
    const Setting* setting = find_setting(name);
    if (setting == nullptr) {
      return fmt::format("unknown variable {} in the environment; did you mean {}?", name,
                         nearest_setting(name)->name);
    }
    const auto value = variable.substr(equals + 1);
    if (!accepts(*setting, value)) {
      return fmt::format("{}={} in the environment: it takes {}", name, value, setting->values);
    }
  }
  return {};
}

void add_run_options(CLI::App& app, const std::string& group) {
  for (const Setting& setting : kSettings) {
    const auto help = fmt::format("{} ({}; {})", setting.help, setting.initial, setting.name);
    app.add_option(option_name(setting), help)
        ->group(group)
        ->type_name(std::string(setting.values))
        ->check([&setting](const std::string& value) {
          return accepts(setting, value) ? std::string()
                                         : fmt::format("it takes {}", setting.values);
        })
        ->multi_option_policy(is_list(setting) ? CLI::MultiOptionPolicy::TakeAll
                                               : CLI::MultiOptionPolicy::TakeLast);
  }
}

RunArguments split_run_arguments(const CLI::App& run, const std::vector<std::string>& arguments) {
  RunArguments split;
  auto next = arguments.begin();
  while (next != arguments.end() && next->size() > 1 && next->front() == '-') {
    if (*next == "--") {
      ++next;
      break;
    }
    std::string word = *next++;
    const CLI::Option* option = run.get_option_no_throw(word);
    const bool takes_value = option != nullptr && option->get_items_expected_max() > 0;
    if (takes_value && is_switch(*option)) {
      const bool has_value = next != arguments.end() && (*next == "on" || *next == "off");
      word += "=" + (has_value ? *next++ : std::string("on"));
    } else if (takes_value && next != arguments.end()) {
      word += "=" + *next++;
    }
    split.options.push_back(word);
  }
  split.command.assign(next, arguments.end());
  return split;
}

void apply_settings(const CLI::App& app) {
  for (const Setting& setting : kSettings) {
    const CLI::Option* option = app.get_option_no_throw(option_name(setting));
    if (option == nullptr || option->count() == 0) continue;
    const auto& results = option->results();
    const std::string value =
        is_list(setting) ? fmt::format("{}", fmt::join(results, ",")) : results.back();
    ::setenv(std::string(setting.name).c_str(), value.c_str(), 1);
  }
}

std::string given_setting(const CLI::App& app) {
  for (const Setting& setting : kSettings) {
    const CLI::Option* option = app.get_option_no_throw(option_name(setting));
    if (option != nullptr && option->count() > 0) return option_name(setting);
  }
  return {};
}

std::vector<std::string> complete_switches(const CLI::App& app,
                                           const std::vector<std::string>& words) {
  std::vector<std::string> whole;
  for (auto word = words.begin(); word != words.end(); ++word) {
    whole.push_back(*word);
    const CLI::Option* option = app.get_option_no_throw(*word);
    if (option == nullptr || !is_switch(*option)) continue;
    const bool has_value = word + 1 != words.end() && (*(word + 1) == "on" || *(word + 1) == "off");
    whole.back() += "=" + (has_value ? *++word : std::string("on"));
  }
  return whole;
}

int exec_command(const CLI::App& run, const std::vector<std::string>& command) {
  if (command.empty()) {
    return usage_error("run what? A program is missing, as in: weft run -- rping -s -v",
                       kHelpCommand);
  }
  const auto folder = library_folder();
  for (const char* library : {"libibverbs.so.1", "librdmacm.so.1", "libweft-sockets.so"}) {
    if (std::error_code failed; !std::filesystem::exists(folder / library, failed)) {
      fmt::print(stderr, "weft: {} is not in {}; the build is not complete\n", library,
                 folder.string());
      return 126;
    }
  }
  apply_settings(run);
  prepend("LD_LIBRARY_PATH", folder.string());
  const bool sockets = run.count("--sockets") != 0;
  if (sockets) prepend("LD_PRELOAD", folder / "libweft-sockets.so");
#ifdef WEFT_SANITIZER_RUNTIME
  // Here the libraries are instrumented and the program is not: a sanitizer's runtime has to be the
  // first library of a process, and only the dynamic linker can put it before the program's own.
  prepend("LD_PRELOAD", WEFT_SANITIZER_RUNTIME);
#ifdef __SANITIZE_THREAD__
  // Within a call that its runtime stands in front of, ThreadSanitizer sees no mutex: a program's
  // calls of sockets have to meet our library first.
  if (sockets) prepend("LD_PRELOAD", folder / "libweft-sockets.so");
#endif
#endif

  std::vector<std::string> owned = command;
  std::vector<char*> words;
  for (std::string& word : owned) words.push_back(word.data());
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  const int error = errno;
  fmt::print(stderr, "weft: cannot run {}: {}\n", command[0],
             error == ENOENT ? "there is no such program" : std::strerror(error));
  return error == ENOENT ? 127 : 126;
}

}  // namespace weft::tools

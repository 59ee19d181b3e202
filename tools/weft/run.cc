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
#include <fstream>
#include <system_error>

#include <weft/settings.h>

#include "weft/output.h"
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

/// The file that execvp found for `program`, or empty.
std::filesystem::path found_program(const std::string& program) {
  std::error_code failed;
  if (program.find('/') != program.npos) {
    const std::filesystem::path file(program);
    return std::filesystem::exists(file, failed) ? file : std::filesystem::path();
  }
  const char* path = std::getenv("PATH");
  for (std::string_view rest = path == nullptr ? "/bin:/usr/bin" : path;;) {
    const auto folder = rest.substr(0, rest.find(':'));
    const auto file = std::filesystem::path(folder) / program;
    if (::access(file.c_str(), X_OK) == 0) return file;
    if (folder.size() == rest.size()) return {};
    rest.remove_prefix(folder.size() + 1);
  }
}

/// Why the system finds no file although `program` is there.
std::string missing_interpreter(const std::filesystem::path& program) {
  std::string line;
  std::getline(std::ifstream(program), line);
  if (!line.starts_with("#!")) return "what it needs to be loaded is not there";
  const auto begin = std::min(line.find_first_not_of(" \t", 2), line.size());
  std::string name = line.substr(begin, line.find_first_of(" \t", begin) - begin);
  // Of a script from elsewhere: its lines end with two characters, and the name with one of them.
  if (name.ends_with('\r')) name.replace(name.size() - 1, 1, "\\r");
  return fmt::format("its interpreter {} is not there", name);
}

/// Says why it cannot become a program; returns the exit status.
int exec_failed(const RunArguments& arguments, int error) {
  const std::string& program = arguments.command[0];
  const auto say = [&](std::string_view why) {
    complain(fmt::format("cannot run {}: {}", program, why));
  };
  if (error != ENOENT) return say(std::strerror(error)), 126;
  if (const auto file = found_program(program); !file.empty()) {
    return say(missing_interpreter(file)), 126;
  }
  // weft run --crc maybe -- true: the program's name may have been meant as a value.
  say(fmt::format("there is no such program{}",
                  arguments.bare_switch.empty()
                      ? std::string()
                      : fmt::format("; {}: it takes on|off", arguments.bare_switch)));
  return 127;
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
    split.bare_switch.clear();
    if (*next == "--") {
      ++next;
      break;
    }
    std::string word = *next++;
    const CLI::Option* option = run.get_option_no_throw(word);
    const bool takes_value = option != nullptr && option->get_items_expected_max() > 0;
    if (takes_value && is_switch(*option)) {
      const bool has_value = next != arguments.end() && (*next == "on" || *next == "off");
      if (!has_value) split.bare_switch = word;
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

int exec_command(const CLI::App& run, const RunArguments& arguments) {
  if (arguments.command.empty() || arguments.command[0].empty()) {
    return usage_error("run what? A program is missing, as in: weft run -- rping -s -v",
                       kHelpCommand);
  }
  const auto folder = library_folder();
  for (const char* library : {"libibverbs.so.1", "librdmacm.so.1", "libweft-sockets.so"}) {
    if (std::error_code failed; !std::filesystem::exists(folder / library, failed)) {
      complain(fmt::format("{} is not in {}; the build is not complete", library, folder.string()));
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

  std::vector<std::string> owned = arguments.command;
  std::vector<char*> words;
  for (std::string& word : owned) words.push_back(word.data());
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  return exec_failed(arguments, errno);
}

}  // namespace weft::tools

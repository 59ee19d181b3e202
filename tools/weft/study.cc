// The study is a Python program in share/weft/study: it starts weft ping and weft blast, hundreds
// of times, and draws what they say. Nothing of it is on a path that is measured.
#include "weft/study.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "weft/output.h"
#include "weft/verbs_choice.h"

namespace weft::tools {

int study_command(const std::vector<std::string>& arguments) {
  const auto prefix = library_folder().parent_path();
  const auto program = prefix / "share" / "weft" / "study" / "main.py";
  if (std::error_code failed; !std::filesystem::exists(program, failed)) {
    complain(fmt::format("{} is missing; the build is not complete", program.string()));
    return 1;
  }
  // -B: what is beside the program stays as it was built.
  std::vector<std::string> owned = {"python3", "-B", program.string(), "--weft",
                                    (prefix / "bin" / "weft").string()};
  owned.insert(owned.end(), arguments.begin(), arguments.end());
  std::vector<char*> words;
  for (std::string& word : owned) words.push_back(word.data());
  words.push_back(nullptr);
  // Python takes Ctrl-C with a traceback until the program says otherwise, which lets it in then.
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  ::sigprocmask(SIG_BLOCK, &interrupt, nullptr);
  ::execvp(words[0], words.data());
  const int error = errno;
  complain(fmt::format(
      "the study needs python3, which {} (Debian: apt-get install python3)",
      error == ENOENT ? "is not here" : fmt::format("cannot run: {}", std::strerror(error))));
  return 1;
}

}  // namespace weft::tools

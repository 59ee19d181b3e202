// The dynamic linker decides when a program starts, so another choice means another start.
#include "weft/verbs_choice.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "measure/rdma_link.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libibverbs.so.1";

fs::path real_path(const fs::path& path) {
  std::error_code failed;
  const auto found = fs::canonical(path, failed);
  return failed ? path : found;
}

/// Where systems keep libraries: the folder of several architectures first, then the others.
fs::path system_folder(const fs::path& own) {
  std::error_code failed;
  std::vector<fs::path> folders;
  for (const char* machine : {"x86_64", "aarch64", "powerpc64le", "riscv64", "s390x"}) {
    for (const char* root : {"/usr/lib/", "/lib/"}) {
      folders.emplace_back(fmt::format("{}{}-linux-gnu", root, machine));
    }
  }
  for (const char* folder : {"/usr/lib64", "/lib64", "/usr/lib", "/lib"}) {
    folders.emplace_back(folder);
  }
  for (const auto& folder : folders) {
    if (fs::exists(folder / kLibrary, failed) && real_path(folder) != real_path(own)) {
      return folder;
    }
  }
  return {};
}

}  // namespace

std::filesystem::path library_folder() {
  std::error_code failed;
  const auto program = fs::read_symlink("/proc/self/exe", failed);
  if (failed) return {};
  return program.parent_path().parent_path() / "lib";
}

void prepend(const char* variable, std::string first) {
  if (const char* before = std::getenv(variable); before != nullptr && *before != '\0') {
    first += ":";
    first += before;
  }
  ::setenv(variable, first.c_str(), 1);
}

std::string choose_verbs(const std::string& wanted, const std::vector<std::string>& words) {
  const fs::path own = library_folder();
  const fs::path folder = wanted == "weft"     ? own
                          : wanted == "system" ? system_folder(own)
                                               : fs::path(wanted);
  if (folder.empty()) return "this system has no libibverbs.so.1; --verbs /FOLDER names another";
  if (std::error_code failed; !fs::exists(folder / kLibrary, failed)) {
    return fmt::format("there is no {} in {}", kLibrary, folder.string());
  }
  const fs::path used = real_path(measure::verbs_library());
  if (used == real_path(folder / kLibrary)) return {};
  const char* path = std::getenv("LD_LIBRARY_PATH");
  if (path != nullptr && std::string_view(path).starts_with(folder.string())) {
    return fmt::format("{} answers although {} is in front", used.string(), folder.string());
  }
  prepend("LD_LIBRARY_PATH", folder.string());
  std::vector<std::string> owned = words;
  std::vector<char*> arguments;
  for (std::string& word : owned) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv("/proc/self/exe", arguments.data());
  return fmt::format("cannot start again with other libraries: {}", std::strerror(errno));
}

}  // namespace weft::tools

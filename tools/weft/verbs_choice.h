// Whose libibverbs a command runs on.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace weft::tools {

/// The folder of the drop-in libraries, or empty: ../lib seen from this program.
std::filesystem::path library_folder();

/// Puts `first` in front of what the variable, a list with colons, holds.
void prepend(const char* variable, std::string first);

/// Sees to it that this process uses the wanted libraries: "weft", "system", or those of a folder.
/// Where it does not, starts this program again with `words` and the folder in front. Returns, if
/// at all, empty or what is wrong, as a sentence.
std::string choose_verbs(const std::string& wanted, const std::vector<std::string>& words);

}  // namespace weft::tools

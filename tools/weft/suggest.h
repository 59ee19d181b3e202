// Naming the word that somebody may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::tools {

/// A sentence fragment such as "; did you mean --engine?", or empty if nothing known is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

/// Writes "weft: TEXT" and where to find help to standard error. Returns the exit status for a
/// usage error, 2.
int usage_error(std::string_view text, std::string_view help_command = "weft --help");

}  // namespace weft::tools

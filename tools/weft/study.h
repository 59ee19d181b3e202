// weft study: starts the program beside this one that makes the papers' measurements again.
#pragma once

#include <string>
#include <vector>

namespace weft::tools {

/// Becomes the study, with its `arguments`; returns the exit status if that cannot be.
int study_command(const std::vector<std::string>& arguments);

}  // namespace weft::tools

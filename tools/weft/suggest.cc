// Naming the word that somebody may have meant.
#include "weft/suggest.h"

#include <fmt/format.h>

#include <weft/settings.h>

#include "weft/output.h"

namespace weft::tools {

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string* nearest = nullptr;
  std::size_t edits_fewest = 0;
  for (const std::string& candidate : known) {
    const std::size_t edits = edit_distance(word, candidate);
    // Half of the word wrong is another word, not a misspelling.
    if (edits * 2 > candidate.size()) continue;
    if (nearest == nullptr || edits < edits_fewest) {
      nearest = &candidate;
      edits_fewest = edits;
    }
  }
  return nearest == nullptr ? std::string() : fmt::format("; did you mean {}?", *nearest);
}

int usage_error(std::string_view text, std::string_view help_command) {
  complain(fmt::format("{}\nTry: {}", text, help_command));
  return 2;
}

}  // namespace weft::tools

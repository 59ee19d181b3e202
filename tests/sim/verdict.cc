// The first failure, and the trace.
#include "tests/sim/verdict.h"

#include <cstdarg>
#include <cstdio>

namespace weft::sim {

void Verdict::fail(Check check, std::string text) {
  trace("FAILED (%s): %s", name(check), text.c_str());
  if (failed_) return;
  failed_ = check;
  text_ = std::move(text);
}

bool Verdict::breaks_once(std::string_view name) {
  if (broke_ || !breaks(name)) return false;
  broke_ = true;
  trace("deliberate mistake: %s", broken_.data());
  return true;
}

void Verdict::trace(const char* format, ...) {
  if (!verbose_) return;
  std::printf("%12.6f ms  ", static_cast<double>(now.ns - 1'000'000'000) / 1e6);
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::putchar('\n');
}

const char* name(Check check) {
  switch (check) {
    case Check::Completions:
      return "completions";
    case Check::Status:
      return "status";
    case Check::Memory:
      return "memory";
    case Check::Visible:
      return "visible";
    case Check::Placement:
      return "placement";
    case Check::Revoked:
      return "revoked";
    case Check::Reads:
      return "reads";
    case Check::Progress:
      return "progress";
    case Check::Ending:
      return "ending";
    case Check::Interface:
      return "interface";
  }
  return "?";
}

}  // namespace weft::sim

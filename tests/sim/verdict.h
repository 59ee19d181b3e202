// What a run found, who watches for what, and how each watcher is shown to be awake.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace weft::sim {

/// The global truths that a run is held against.
enum class Check : std::uint8_t {
  Completions,  ///< every work request taken completes exactly once, per queue in posting order,
                ///< and not before the transport has its octets
  Status,       ///< success, flushed, and at most one guilty; nothing succeeds behind a failure
  Memory,       ///< all memory is as the model says, guards included
  Visible,      ///< what was reported done has taken effect
  Placement,    ///< octets go only where a valid region lies
  Revoked,      ///< nothing changes in a region that was taken back
  Reads,        ///< our open Reads <= ORD, the peer's <= IRD
  Progress,     ///< no stall, no endless run
  Ending,       ///< the stream ends the way the script says
  Interface,    ///< what the core promises about its own calls
};

/// A deliberate mistake of the simulation's own, to prove that the check for it can fail.
struct Break {
  const char* name;
  Check caught_by;
};
inline constexpr std::array kBreaks = {
    Break{"drop-completion", Check::Completions}, Break{"repeat-completion", Check::Completions},
    Break{"sent-too-early", Check::Completions},  Break{"second-guilty", Check::Status},
    Break{"flushed-in-peace", Check::Status},     Break{"octet-outside", Check::Memory},
    Break{"octet-wrong", Check::Memory},          Break{"corrupt-without-crc", Check::Memory},
    Break{"placement-lost", Check::Visible},      Break{"placement-astray", Check::Placement},
    Break{"revoked-changes", Check::Revoked},     Break{"reads-above-ord", Check::Reads},
    Break{"reads-above-ird", Check::Reads},       Break{"deaf-end", Check::Progress},
    Break{"octet-lost", Check::Ending},           Break{"other-terminate", Check::Ending},
    Break{"consumed-too-much", Check::Interface}, Break{"atomic-wrong", Check::Memory},
    Break{"atomic-torn", Check::Memory},          Break{"original-wrong", Check::Memory},
    Break{"immediate-wrong", Check::Completions}, Break{"immediate-unsaid", Check::Completions},
    Break{"window-astray", Check::Placement},     Break{"window-shut", Check::Placement},
    Break{"window-survives", Check::Interface},
};

/// One run's first failure, its trace, and the mistake it is told to make.
class Verdict {
 public:
  /// `broken`: a name of kBreaks, or empty. `verbose`: the trace goes to stdout.
  Verdict(std::string_view broken, bool verbose) : broken_(broken), verbose_(verbose) {}

  /// Only the first failure counts: what follows is its consequence.
  void fail(Check check, std::string text);
  bool failed() const { return failed_.has_value(); }
  std::optional<Check> check() const { return failed_; }
  const std::string& text() const { return text_; }

  /// Is this the mistake to make in this run?
  bool breaks(std::string_view name) const { return broken_ == name; }
  /// The same, true for the first time only.
  bool breaks_once(std::string_view name);

  bool verbose() const { return verbose_; }
  [[gnu::format(printf, 2, 3)]] void trace(const char* format, ...);
  Instant now{1'000'000'000};  ///< the virtual clock

 private:
  std::string_view broken_;
  bool broke_ = false;
  bool verbose_;
  std::optional<Check> failed_;
  std::string text_;
};

const char* name(Check);

}  // namespace weft::sim

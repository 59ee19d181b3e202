// What the user may choose: WEFT_* variables, parsed once.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace weft::engine {

enum class Placement : std::uint8_t { Thread, Inline };

/// The values in force. The defaults here are the defaults of include/weft/settings.h.
struct Settings {
  bool persona_ib = false;  ///< of no account to the engine: above it, devices look different
  Placement engine = Placement::Thread;
  bool crc = true;
  bool markers = false;
  std::uint8_t mpa_revision = 2;
  bool peer_to_peer = true;
  bool rtr_send = false, rtr_write = true, rtr_read = true;
  Duration startup_timeout = std::chrono::seconds(10);
  bool strict_receive = false;
  bool complete_placed = false;
  /// Bound on an orderly end, and on a message waiting for a receive after its sender left. Not a
  /// variable of the environment.
  Duration close_timeout = std::chrono::seconds(5);
  /// Bulk within a host is spliced whenever it can be, not only where that is the faster way. For
  /// tests: not a variable either.
  bool splice_always = false;
  /// Bulk that is not spliced from where it lies is staged, and spliced from there, whenever it can
  /// be. Likewise.
  bool stage_always = false;
};

/// Reads the process's environment. EINVAL: a WEFT_* variable that is unknown or has a bad value;
/// `message` then says which, what was expected, and the nearest known name.
Result<Settings> settings_from_environment(std::string* message);

}  // namespace weft::engine

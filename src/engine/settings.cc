// WEFT_* variables to Settings; the table of names and values is include/weft/settings.h.
#include "engine/settings.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "weft/settings.h"

extern char** environ;

namespace weft::engine {
namespace {

/// The value in force: the environment's, else the table's.
std::string_view value_of(std::string_view name) {
  const Setting* setting = find_setting(name);
  weft_assert(setting != nullptr);
  const char* value = std::getenv(std::string(name).c_str());
  return value != nullptr ? std::string_view(value) : setting->initial;
}

bool is_on(std::string_view name) {
  return value_of(name) == "on";
}

/// Empty if `variable` ("NAME=value") is fine, else the sentence for the user.
std::string complaint_about(std::string_view variable) {
  const std::size_t equals = variable.find('=');
  const std::string name(variable.substr(0, equals));
  const std::string value(equals == std::string_view::npos ? "" : variable.substr(equals + 1));
  const Setting* setting = find_setting(name);
  if (setting == nullptr) {
    return "weft: unknown setting " + name + "; the nearest known one is " +
           std::string(nearest_setting(name)->name);
  }
  if (accepts(*setting, value)) return {};
  return "weft: " + name + "=" + value + " is not possible; expected " +
         std::string(setting->values);
}

}  // namespace

Result<Settings> settings_from_environment(std::string* message) {
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, kSettingPrefix.data(), kSettingPrefix.size()) != 0) continue;
    std::string complaint = complaint_about(*variable);
    if (complaint.empty()) continue;
    if (message != nullptr) *message = std::move(complaint);
    return Error{EINVAL, "a WEFT_* variable is unknown or has a value that is not possible"};
  }
  Settings settings;
  settings.persona_ib = value_of("WEFT_PERSONA") == "ib";
  settings.engine = value_of("WEFT_ENGINE") == "inline" ? Placement::Inline : Placement::Thread;
  settings.crc = is_on("WEFT_CRC");
  settings.markers = is_on("WEFT_MARKERS");
  settings.mpa_revision = value_of("WEFT_MPA_REVISION") == "1" ? 1 : 2;
  settings.peer_to_peer = is_on("WEFT_PEER_TO_PEER");
  const std::string_view rtr = value_of("WEFT_RTR");
  settings.rtr_send = rtr == "send";
  settings.rtr_write = rtr == "write" || rtr == "any";
  settings.rtr_read = rtr == "read" || rtr == "any";
  settings.startup_timeout = std::chrono::milliseconds(
      std::strtol(std::string(value_of("WEFT_STARTUP_TIMEOUT_MS")).c_str(), nullptr, 10));
  settings.strict_receive = is_on("WEFT_STRICT_RECEIVE");
  settings.complete_placed = value_of("WEFT_COMPLETE") == "placed";
  return settings;
}

}  // namespace weft::engine

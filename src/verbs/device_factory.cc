// The only file above the device that knows the engine.
#include "verbs/device_factory.h"

#include "engine/engine.h"

namespace weft::verbs {

Result<std::unique_ptr<device::Device>> make_device(device::Events& events, std::string* message) {
  auto settings = engine::settings_from_environment(message);
  if (!settings) return settings.error();
  auto device = engine::create_device(*settings, events);
  if (!device) *message = std::string("weft: ") + device.error().text;
  return device;
}

Persona persona() {
  static const bool ib = [] {
    const auto settings = engine::settings_from_environment(nullptr);
    return settings && settings->persona_ib;
  }();
  return ib ? Persona::IB : Persona::IWarp;
}

Result<void> check_settings(std::string* message) {
  const auto settings = engine::settings_from_environment(message);
  if (!settings) return settings.error();
  return {};
}

}  // namespace weft::verbs

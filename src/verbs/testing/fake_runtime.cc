// Gives the process a fake device instead of an engine.
#include "verbs/testing/fake_runtime.h"

#include <cerrno>

#include "verbs/device_factory.h"

namespace weft::verbs {

Persona persona() { return Persona::IWarp; }

Result<void> check_settings(std::string* message) {
  if (testing::make_device_failure.empty()) return {};
  *message = testing::make_device_failure;
  return Error{EINVAL, "told to fail"};
}

Result<std::unique_ptr<device::Device>> make_device(device::Events& events, std::string* message) {
  if (const Result<void> settings = check_settings(message); !settings) return settings.error();
  return std::unique_ptr<device::Device>(new testing::FakeDevice(events));
}

}  // namespace weft::verbs

namespace weft::verbs::testing {

std::string make_device_failure;

FakeDevice& fake_device() {
  auto device = ProcessRuntime::instance().device();
  if (!device) std::abort();
  return static_cast<FakeDevice&>(**device);
}

}  // namespace weft::verbs::testing

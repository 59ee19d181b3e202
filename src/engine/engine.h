// Makes the device that the settings ask for.
#pragma once

#include <memory>

#include "base/result.h"
#include "device/device.h"
#include "engine/settings.h"

namespace weft::engine {

/// A device on kernel TCP. `events` outlives it. Errors: EMFILE and its like.
Result<std::unique_ptr<device::Device>> create_device(const Settings& settings,
                                                      device::Events& events);

}  // namespace weft::engine

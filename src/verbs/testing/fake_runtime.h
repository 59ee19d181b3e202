// The process's runtime on a fake device: link fake_runtime.cc, and this is what it starts.
#pragma once

#include <string>

#include "verbs/process_runtime.h"
#include "verbs/testing/fake_device.h"

namespace weft::verbs::testing {

/// The fake device, started.
FakeDevice& fake_device();

/// While not empty, making a device fails with EINVAL and this message.
extern std::string make_device_failure;

}  // namespace weft::verbs::testing

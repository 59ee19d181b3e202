// The device of an id that a forked child inherited.
#pragma once

#include "device/device.h"

namespace weft::front::cm {

/// Answers EIO to everything: the device itself is the parent's, and a call on the copy of it would
/// reach through the descriptors that both processes share. Lives for ever. Threads: any.
device::Device& gone_device();

}  // namespace weft::front::cm

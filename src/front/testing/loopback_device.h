// Test-only, public headers only: the device that is there on every machine.
#pragma once

#include <infiniband/verbs.h>

#include <cstring>

namespace weft::front::testing {

/// weft's device of the loopback interface, opened; null if there is none.
inline ibv_context* open_loopback() {
  ibv_device** list = ibv_get_device_list(nullptr);
  ibv_context* context = nullptr;
  for (ibv_device** device = list; device != nullptr && *device != nullptr; ++device) {
    if (std::strcmp(ibv_get_device_name(*device), "weft_lo") == 0) {
      context = ibv_open_device(*device);
    }
  }
  if (list != nullptr) ibv_free_device_list(list);
  return context;
}

}  // namespace weft::front::testing

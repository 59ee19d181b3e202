// Where the process's device comes from: the one seam between the verbs objects and the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "device/device.h"

namespace weft::verbs {

/// Makes the device that the environment's WEFT_* settings ask for. `events` outlives it. On error
/// `message` holds a line for people that begins with "weft: ". Unit tests bring definitions of
/// their own.
Result<std::unique_ptr<device::Device>> make_device(device::Events& events, std::string* message);

/// How devices present themselves to programs; WEFT_PERSONA.
enum class Persona : std::uint8_t {
  IWarp,  ///< as they are: connected by RDMA CM
  IB,     ///< as InfiniBand's over Ethernet (RoCE): also connected by ibv_modify_qp
};
/// Before the settings were checked: IWarp for a value that is none.
Persona persona();

/// Would make_device() accept the settings? EINVAL and such a line if not.
Result<void> check_settings(std::string* message);

}  // namespace weft::verbs

// A listening port of the RNIC.
#pragma once

#include <memory>

#include "engine/rnic.h"
#include "transport/transport.h"

namespace weft::engine {

struct Rnic::ListenerSlot {
  std::unique_ptr<transport::Listener> listener;
  device::ListenerNumber number = 0;
  std::uint64_t cookie = 0;
  std::shared_ptr<ListenerPlaces> places;
  std::optional<Instant> paused_until;
};

}  // namespace weft::engine

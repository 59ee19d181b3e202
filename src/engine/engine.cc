// The factory.
#include "engine/engine.h"

#include <cerrno>
#include <new>

#include "engine/rnic.h"
#include "transport/tcp/tcp_transport.h"

namespace weft::engine {

Result<std::unique_ptr<device::Device>> create_device(const Settings& settings,
                                                      device::Events& events) try {
  // Stateless, so one serves every device and outlives them all.
  static constinit transport::TCPTransport tcp;
  auto rnic = std::make_unique<Rnic>(settings, events, tcp);
  if (const Result<void> started = rnic->start(); !started) return started.error();
  return std::unique_ptr<device::Device>(std::move(rnic));
} catch (const std::bad_alloc&) {
  return Error{ENOMEM, "no memory for a device"};
}

}  // namespace weft::engine

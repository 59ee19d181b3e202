// The factory.
#include "engine/engine.h"

#include "engine/rnic.h"
#include "transport/tcp/tcp_transport.h"

namespace weft::engine {

Result<std::unique_ptr<device::Device>> create_device(const Settings& settings,
                                                      device::Events& events) {
  // Stateless, so one serves every device and outlives them all.
  static constinit transport::TCPTransport tcp;
  auto rnic = std::make_unique<Rnic>(settings, events, tcp);
  if (const Result<void> started = rnic->start(); !started) return started.error();
  return std::unique_ptr<device::Device>(std::move(rnic));
}

}  // namespace weft::engine

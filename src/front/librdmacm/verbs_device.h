// The verbs side of a weft device: one open ibv_context per device, shared by every id on it.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "verbs/runtime.h"

namespace weft::front::cm {

/// Opened once and never closed: rdma_get_devices promises that contexts stay.
struct VerbsDevice {
  std::string name;
  ibv_context* context = nullptr;
  unsigned mtu = 0;            ///< of the interface
  std::uint8_t ird_max = 0;    ///< the most a program may ask for as responder_resources
  std::uint8_t ord_max = 0;    ///< ... as initiator_depth
  // Guarded by the table's mutex.
  ibv_pd* pd = nullptr;        ///< the default PD, there while an id is bound to the device
  unsigned users = 0;
};

/// Any thread. Calls libibverbs, hence the device, while holding its own mutex: see manager.h.
class VerbsDeviceTable {
 public:
  /// Counts one more id on this interface's device. ENODEV: libibverbs does not list it.
  Result<VerbsDevice*> acquire(const verbs::Interface& interface);
  void release(VerbsDevice* device);
  /// The contexts of all these devices, opened as needed; those that do not open are left out.
  std::vector<ibv_context*> open_all(std::span<const verbs::Interface* const> interfaces);
  /// Around a fork: keeps everybody out.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  Result<VerbsDevice*> open(const verbs::Interface& interface);

  std::mutex mutex_;
  std::vector<std::unique_ptr<VerbsDevice>> devices_;
};

}  // namespace weft::front::cm

// The one object behind both drop-in libraries: the process's devices and engine.
//
// libibverbs.so.1 contains it; librdmacm.so.1 reaches it through the single private symbol
// weft_private_runtime. Both are built together; `abi_version` catches a mixed installation.
#pragma once

#include <cstdint>
#include <span>

#include "base/number_gate.h"
#include "base/result.h"
#include "device/device.h"

namespace weft::verbs {

/// One weft device per network interface.
struct Interface {
  char name[32];            ///< device name: "weft_lo", "weft_eth0"
  char netdev[16];          ///< "lo"
  unsigned index;           ///< ifindex
  unsigned mtu;
  bool up;
  std::uint64_t guid;       ///< stable: from the MAC and the index; never 0
  std::uint8_t mac[6];
  std::uint32_t speed_mbps; ///< 0 when unknown

  friend bool operator==(const Interface&, const Interface&) = default;
};

/// Receives what the device reports for connections; the CQ and async events are libibverbs' own.
class ConnectionEvents {
 public:
  /// See device::Events: queue, wake, return.
  virtual void handle_connection_event(const device::ConnectionEvent&) = 0;

 protected:
  ~ConnectionEvents() = default;
};

class Runtime {
 public:
  static constexpr std::uint32_t kABIVersion = 2;

  virtual std::uint32_t abi_version() const = 0;
  /// Interfaces that are there now, in ifindex order; a snapshot that stays valid for ever (devices
  /// seen once are remembered by name).
  virtual std::span<const Interface* const> interfaces() = 0;
  /// The interface that has this address, or that packets to `remote` leave by. Null: none.
  virtual const Interface* interface_of(const sockaddr* local) = 0;
  /// The process's device, started on first use. Error: a bad WEFT_* setting (EINVAL and its
  /// sentence), no resources.
  virtual Result<device::Device*> device() = 0;
  /// Whom connection events go to (librdmacm registers itself once).
  virtual void set_connection_events(ConnectionEvents*) = 0;
  /// The device-level number of a QP made by libibverbs, for connect and accept: given an ibv_qp*.
  /// 0 when it is not one of ours.
  virtual device::QPNumber qp_number(const void* ibv_qp) = 0;
  /// Of the descriptors of channels and of asynchronous events, now.
  virtual Numbers numbers() const = 0;

 protected:
  ~Runtime() = default;
};

}  // namespace weft::verbs

extern "C" weft::verbs::Runtime* weft_private_runtime();

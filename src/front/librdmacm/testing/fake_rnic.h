// A runtime, a device and the public verbs for the tests of the connection manager: connections
// between ids of this process, no octets.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "verbs/runtime.h"

namespace weft::front::cm::testing {

/// Reports every event inside the call that causes it, which is the earliest that a device can; or,
/// when inline, from progress().
class FakeDevice final : public device::Device {
 public:
  struct Connection {
    device::ConnectionNumber peer = 0;
    std::uint64_t cookie = 0;
    device::QPNumber qp = 0;
    std::uint16_t ird = 0, ord = 0;
    sockaddr_storage local{}, remote{};
    bool established = false;
  };

  explicit FakeDevice(bool run_inline);
  ~FakeDevice() override;

  // What the tests look at and set.
  verbs::ConnectionEvents* sink = nullptr;
  int connect_fails_with = 0;       ///< errno of the Failed event of the next connects
  int ends_with = 0;                ///< errno of the Disconnected events
  bool hold_requests = false;       ///< connects get no answer
  /// Runs once, when the next connect or accept has reported its events and not yet returned.
  std::function<void()> before_return;
  bool tell_depths = true;
  bool show_mapped = false;         ///< requests show IPv4 addresses mapped into IPv6
  std::vector<std::pair<device::QPNumber, device::QPCommand>> commands;
  std::map<device::ConnectionNumber, Connection> connections;
  std::size_t listeners() const { return listeners_.size(); }
  std::vector<std::uint8_t> last_reject_data;
  int rejects = 0;
  /// An event that no call caused.
  void report(device::ConnectionEvent event);
  void qp_destroyed(device::QPNumber qp);

  Result<device::ListenerNumber> listen(const sockaddr*, int, bool, std::uint64_t) override;
  Result<void> listener_address(device::ListenerNumber, sockaddr_storage*) override;
  Result<void> close_listener(device::ListenerNumber) override;
  Result<device::ConnectionNumber> connect(const sockaddr*, const sockaddr*,
                                           const device::ConnectRequest&, std::uint64_t) override;
  Result<void> accept(device::ConnectionNumber, const device::ConnectRequest&,
                      std::uint64_t) override;
  Result<void> reject(device::ConnectionNumber, Octets) override;
  Result<void> disconnect(device::ConnectionNumber) override;
  Result<void> release(device::ConnectionNumber) override;
  Result<void> command_qp(device::QPNumber, device::QPCommand) override;
  Result<void> modify_qp(device::QPNumber, const device::QPAttributes&) override {
    return unused();
  }
  Result<device::QPStatus> query_qp(device::QPNumber) override;
  int progress_fd() const override { return progress_fd_; }
  void progress() override;
  int timeout_ms() override { return 1000; }

  // Not used by the connection manager.
  Result<std::uint32_t> name_qp(device::QPNumber) override { return unused(); }
  Result<void> pair_qp(const device::PairRequest&) override { return unused(); }
  Result<device::PDNumber> create_pd() override { return unused(); }
  Result<void> destroy_pd(device::PDNumber) override { return unused(); }
  Result<std::uint32_t> register_region(const device::RegionRequest&) override { return unused(); }
  Result<void> reregister_region(std::uint32_t, const device::RegionRequest&) override {
    return unused();
  }
  Result<void> deregister_region(std::uint32_t) override { return unused(); }
  Result<std::uint32_t> allocate_window(device::PDNumber, device::WindowKind) override {
    return unused();
  }
  Result<void> deallocate_window(std::uint32_t) override { return unused(); }
  Result<device::CQFace> create_cq(std::uint32_t, std::uint64_t, void*, bool) override {
    return unused();
  }
  Result<void> destroy_cq(device::CQNumber) override { return unused(); }
  Result<device::CQFace> resize_cq(device::CQNumber, std::uint32_t, void*) override {
    return unused();
  }
  Result<void> moderate_cq(device::CQNumber, const device::CQModeration&) override {
    return unused();
  }
  Result<device::SRQFace> create_srq(device::PDNumber, std::uint32_t, std::uint32_t, std::uint64_t,
                                     void*) override {
    return unused();
  }
  Result<void> destroy_srq(device::SRQNumber) override { return unused(); }
  Result<void> set_srq_limit(device::SRQNumber, std::uint32_t) override { return unused(); }
  Result<device::QPFace> create_qp(const device::QPRequest&) override { return unused(); }
  Result<void> destroy_qp(device::QPNumber) override { return unused(); }
  void ring_send(device::QPNumber, const device::Posted&) override {}
  void ring_receive(device::QPNumber) override {}
  void ring_shared_receive(device::SRQNumber) override {}
  Result<void> arm_cq(device::CQNumber, bool) override { return unused(); }
  void poll(device::CQNumber) override {}

 private:
  struct Listener {
    std::uint64_t cookie;
    sockaddr_storage local;
  };
  struct Queued {
    device::ConnectionEvent event;
    std::vector<std::uint8_t> data;
  };

  static Error unused() { return {ENOSYS, "not part of the fake"}; }
  void end(device::ConnectionNumber number);
  void run_before_return();

  std::recursive_mutex progress_lock_;  ///< recursive: the fake reports from within calls
  int progress_fd_ = -1;
  std::deque<Queued> queued_;
  std::map<device::ListenerNumber, Listener> listeners_;
  std::uint64_t last_number_ = 0;
  std::uint16_t next_port_ = 20000;
};

/// The runtime that find_runtime() gives: one interface, lo.
class FakeRuntime final : public verbs::Runtime {
 public:
  std::uint32_t version = kABIVersion;
  FakeDevice* fake = nullptr;

  std::uint32_t abi_version() const override { return version; }
  std::span<const verbs::Interface* const> interfaces() override;
  const verbs::Interface* interface_of(const sockaddr* local) override;
  Result<device::Device*> device() override { return fake; }
  void set_connection_events(verbs::ConnectionEvents* events) override { fake->sink = events; }
  device::QPNumber qp_number(const void* ibv_qp) override;
  Numbers numbers() const override { return Numbers::Lowest; }
};
FakeRuntime& fake_runtime();

/// Verbs objects alive: every test ends with as many as it started with.
struct VerbsCounts {
  int pds = 0, cqs = 0, channels = 0, qps = 0, srqs = 0;
  friend bool operator==(const VerbsCounts&, const VerbsCounts&) = default;
};
VerbsCounts& verbs_counts();
/// Does the device show as one of persona ib?
void set_persona_ib(bool ib);
/// The time-out that ibv_modify_qp set last.
int last_timeout();
/// The next ibv_create_qp fails with this errno.
void fail_next_qp(int code);

}  // namespace weft::front::cm::testing

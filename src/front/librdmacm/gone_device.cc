// A device that is not there: every operation is EIO.
#include "front/librdmacm/gone_device.h"

#include <cerrno>

namespace weft::front::cm {
namespace {

Error gone() { return {EIO, "the device is the parent process's"}; }

class GoneDevice final : public device::Device {
 public:
  Result<device::PDNumber> create_pd() override { return gone(); }
  Result<void> destroy_pd(device::PDNumber) override { return gone(); }
  Result<std::uint32_t> register_region(const device::RegionRequest&) override { return gone(); }
  Result<void> reregister_region(std::uint32_t, const device::RegionRequest&) override {
    return gone();
  }
  Result<void> deregister_region(std::uint32_t) override { return gone(); }
  Result<std::uint32_t> allocate_window(device::PDNumber, device::WindowKind) override {
    return gone();
  }
  Result<void> deallocate_window(std::uint32_t) override { return gone(); }
  Result<device::CQFace> create_cq(std::uint32_t, std::uint64_t, void*, bool) override {
    return gone();
  }
  Result<void> destroy_cq(device::CQNumber) override { return gone(); }
  Result<device::CQFace> resize_cq(device::CQNumber, std::uint32_t, void*) override {
    return gone();
  }
  Result<void> moderate_cq(device::CQNumber, const device::CQModeration&) override {
    return gone();
  }
  Result<device::SRQFace> create_srq(device::PDNumber, std::uint32_t, std::uint32_t, std::uint64_t,
                                     void*) override {
    return gone();
  }
  Result<void> destroy_srq(device::SRQNumber) override { return gone(); }
  Result<void> set_srq_limit(device::SRQNumber, std::uint32_t) override { return gone(); }
  Result<device::QPFace> create_qp(const device::QPRequest&) override { return gone(); }
  Result<void> destroy_qp(device::QPNumber) override { return gone(); }
  Result<void> command_qp(device::QPNumber, device::QPCommand) override { return gone(); }
  Result<void> modify_qp(device::QPNumber, const device::QPAttributes&) override { return gone(); }
  Result<device::QPStatus> query_qp(device::QPNumber) override { return gone(); }

  Result<device::ListenerNumber> listen(const sockaddr*, int, bool, std::uint64_t) override {
    return gone();
  }
  Result<void> listener_address(device::ListenerNumber, sockaddr_storage*) override {
    return gone();
  }
  Result<void> close_listener(device::ListenerNumber) override { return gone(); }
  Result<device::ConnectionNumber> connect(const sockaddr*, const sockaddr*,
                                           const device::ConnectRequest&,
                                           std::uint64_t) override {
    return gone();
  }
  Result<void> accept(device::ConnectionNumber, const device::ConnectRequest&,
                      std::uint64_t) override {
    return gone();
  }
  Result<void> reject(device::ConnectionNumber, Octets) override { return gone(); }
  Result<void> disconnect(device::ConnectionNumber) override { return gone(); }
  Result<void> release(device::ConnectionNumber) override { return gone(); }
  Result<std::uint32_t> name_qp(device::QPNumber) override { return gone(); }
  Result<void> pair_qp(const device::PairRequest&) override { return gone(); }

  void ring_send(device::QPNumber, const device::Posted&) override {}
  void ring_receive(device::QPNumber) override {}
  void ring_shared_receive(device::SRQNumber) override {}
  Result<void> arm_cq(device::CQNumber, bool) override { return gone(); }
  void poll(device::CQNumber) override {}
  int progress_fd() const override { return -1; }
  void progress() override {}
  int timeout_ms() override { return -1; }
};

}  // namespace

device::Device& gone_device() {
  static GoneDevice device;
  return device;
}

}  // namespace weft::front::cm

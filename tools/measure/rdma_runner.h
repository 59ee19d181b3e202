// What both measurements by RDMA have in common: a link, memory, the peer's region, completions.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "measure/memory.h"
#include "measure/rdma_link.h"
#include "measure/runner.h"

namespace weft::measure {

/// What one end tells the other in the private data of connecting: which connection it is, and
/// where its memory lies.
struct Region {
  std::uint32_t connection = 0;
  std::uint64_t base = 0;
  std::uint32_t key = 0;
};
inline constexpr std::size_t kRegionOctets = 20;
std::array<std::byte, kRegionOctets> encode_region(const Region& region);
/// Throws Failure unless the octets begin with a region. They may come from anyone.
Region parse_region(std::span<const std::byte> octets);

class RdmaRunner : public Runner {
 public:
  RdmaRunner(const Plan& plan, Side side, std::unique_ptr<RdmaLink> link,
             std::unique_ptr<Memory> memory)
      : plan_(plan), side_(side), link_(std::move(link)), memory_(std::move(memory)) {}

  /// One end of connection number `connection`: of a server, for what its listener got.
  static std::unique_ptr<RdmaRunner> make(const Plan& plan, Side side,
                                          std::unique_ptr<RdmaLink> link);
  /// Before the first leg: connects (the client) or accepts.
  void establish(std::uint32_t connection, const LinkEvents::Event* request);
  ibv_device* device() const { return link_->device(); }

  void arm() override;
  int descriptor() const override { return link_->completions()->fd; }
  short events() const override;
  void woken() override { link_->take_cq_event(); }
  void check() override {}

 protected:
  static constexpr std::uint64_t kRead = std::uint64_t{1} << 62;
  static constexpr std::uint64_t kControl = std::uint64_t{1} << 61;
  static constexpr std::uint64_t kFreed = 0xFFFF'FFFF;  ///< in a wr_id: entries that it frees

  /// How a leg's receive came.
  virtual void on_received(const ibv_wc& completion) = 0;
  /// A signalled work request is done; `freed` entries of the send queue with it.
  virtual void on_sent(std::uint64_t wr_id) = 0;

  /// One ibv_poll_cq; how many completions it found.
  int poll();
  void post(ibv_send_wr& first);
  void post_receives(ibv_recv_wr& first);
  [[noreturn]] void fail_unable() const;

  ibv_sge local(std::size_t offset, std::uint64_t octets) const {
    return {reinterpret_cast<std::uintptr_t>(memory_->base() + offset),
            static_cast<std::uint32_t>(octets), link_->mr()->lkey};
  }
  void aim(ibv_send_wr& request, std::size_t peer_offset) const {
    request.wr.rdma.remote_addr = peer_.base + peer_offset;
    request.wr.rdma.rkey = peer_.key;
  }
  ibv_wr_opcode opcode() const;

  const Plan& plan_;
  const Side side_;
  Leg leg_;
  std::unique_ptr<RdmaLink> link_;
  std::unique_ptr<Memory> memory_;
  Region peer_;
};

std::unique_ptr<RdmaRunner> make_rdma_ping(const Plan& plan, Side side,
                                           std::unique_ptr<RdmaLink> link);
std::unique_ptr<RdmaRunner> make_rdma_blast(const Plan& plan, Side side,
                                            std::unique_ptr<RdmaLink> link);

}  // namespace weft::measure

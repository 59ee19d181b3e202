// One reliable RDMA connection, by the public CM and verbs interfaces, as the bench needs it.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <optional>
#include <string>

#include "bench/buffers.h"
#include "bench/medium.h"
#include "measure/rdma_link.h"

namespace weft::bench {

/// Messages in flight at most, and receives posted at most.
inline constexpr std::uint32_t kDepth = 128;
/// The same for messages of a few octets.
inline constexpr std::uint32_t kSmallDepth = 512;
/// A lone unsignalled work request in so many is signalled, so that the queue can be reaped.
inline constexpr std::uint32_t kSignalEvery = 32;

/// One QP whose two queues complete into one CQ, one region over the Buffers, and the peer's. Calls
/// throw Failure, also when any completion is not a success. Single-threaded.
class RdmaConnection {
 public:
  RdmaConnection(Medium::Role role, const std::string& address, Control& control, Buffers& buffers);

  /// Posts a list. Each signalled entry's wr_id is how many entries of the send queue its
  /// completion frees; those of all entries are in flight until then.
  void post_send(ibv_send_wr& first, std::uint32_t count);
  /// Posts `count` receives of `octets` at `at`, one after the other to the same place.
  void post_receives(std::byte* at, std::uint64_t octets, std::uint32_t count);

  /// The same for `count` messages that bring no octets of their own: Writes with immediate data.
  void post_empty_receives(std::uint32_t count);

  /// One ibv_poll_cq. Returns how many completions it found.
  int poll();
  std::uint32_t in_flight() const { return in_flight_; }
  /// Receives completed since the last reset_received().
  std::uint64_t received() const { return received_; }
  void reset_received() { received_ = 0; }
  /// Polls until the send queue is empty.
  void drain();

  /// Sleeps on the completion channel until `count` receives have completed since the last
  /// reset_received().
  void sleep_until_received(std::uint64_t count);

  /// Part of the own region; `at` lies in the Buffers.
  ibv_sge local(const std::byte* at, std::uint64_t octets) const;
  std::uint64_t peer_address(std::size_t offset) const { return peer_base_ + offset; }
  std::uint32_t peer_key() const { return peer_key_; }
  std::uint32_t inline_octets() const { return link_->inline_octets(); }
  ibv_device* device() const { return link_->device(); }

 private:
  void post_receive_list(ibv_sge* place, std::uint32_t count);

  LinkEvents events_;
  std::optional<RdmaListener> listener_;
  std::optional<RdmaLink> link_;
  std::uint64_t peer_base_ = 0;
  std::uint32_t peer_key_ = 0;
  std::uint32_t in_flight_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace weft::bench

// The lane of a stream over the public verbs: its memory, its QP and its completions.
//
// The device's transport decides how a message travels. Where it is iWARP, a Write is followed by a
// Send of the four octets of the message, in the sender's byte order; elsewhere they are the
// immediate data of the Write.
#pragma once

#include <rdma/rdma_cma.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "front/sockets/operations.h"
#include "front/sockets/stream.h"

namespace weft::sockets {

/// How large a connection is made: docs/SOCKETS.md says what that costs. What is sent leaves the
/// ring as soon as TCP has it. The other one is given out in halves, and while one is under way the
/// other should last: it is several batches of the device.
struct LaneSize {
  std::uint32_t send_octets = 512 * 1024;
  std::uint32_t receive_octets = 0;  ///< 0: as many as are good for bulk
  std::uint16_t send_entries = 384;
  std::uint16_t receive_entries = 384;
  std::uint32_t iomap_entries = 0;
  std::uint16_t operations = IWARP_OPERATIONS_DEFAULT;  ///< open at once, beside the stream's work
};

/// The bit of a wr_id that says it is a transfer's; a receive's may have it too.
inline constexpr std::uint64_t kTransfer = std::uint64_t{1} << 62;
/// Beside it: a mark's, behind that transfer.
inline constexpr std::uint64_t kTransferMark = std::uint64_t{1} << 61;

/// One thread at a time.
class VerbsLane final : public Lane, public TransferLane {
 public:
  /// Makes QP, CQ and memory on the device of `id`, which gets the QP, and posts the receives.
  /// Errors: those of the verbs; ENOTSUP: the device cannot send four octets inline.
  static Result<std::unique_ptr<VerbsLane>> create(rdma_cm_id& id, const LaneSize& size);
  ~VerbsLane();
  VerbsLane(const VerbsLane&) = delete;
  VerbsLane& operator=(const VerbsLane&) = delete;

  static constexpr int kAll = 0x7fffffff;

  Stream& stream() { return *stream_; }
  ibv_pd* pd() { return pd_; }
  /// Becomes readable when a completion comes after arm().
  int event_fd() const { return channel_->fd; }
  /// Hands completions to the stream, all or `most` of them, and lets it go on. True: there were
  /// some.
  bool drive(int most = kAll);
  /// Has the next completion make event_fd() readable; one may have come before: drive() again.
  void arm();
  /// Events that `taker(cookie)` takes do not make event_fd() readable; null: all do. As
  /// weft_hand_events (front/libibverbs/hand_events.h); over other verbs libraries it is not asked.
  void hand_events(bool (*taker)(void*), void* cookie);
  /// An event of arm() is still to come, or was not taken yet: event_fd() tells.
  bool is_armed() const { return armed_; }
  /// The QP has ended: it gave work back undone.
  bool is_flushed() const { return flushed_; }
  /// event_fd() is readable. drive() takes the event of the completions that it finds itself.
  void take_event();

  /// So much was written since drive() that it is time for it: a device that gathers posts sends
  /// them then, and the peer has something to do while the next are made.
  bool has_much_posted() const { return posted_octets_ >= kPostedOctetsMax; }

  bool write(Octets octets, const Sge& target, std::uint32_t message, Tag tag) override;
  bool write_entry(Octets entry, const Sge& target, std::uint32_t message, Tag tag) override;
  bool tell(std::uint32_t message, Tag tag) override;
  bool write_silently(Octets octets, const Sge& target, Tag tag) override;
  bool write_borrowed(Octets octets, std::uint32_t key, const Sge& target, std::uint32_t message,
                      Tag tag) override;
  void fill(MutableOctets room, Cursor& from) override;
  void read(Cursor& to, Octets from, bool peek) override;

  /// Transfers end there; null: nowhere.
  void set_operations(Operations* operations) { operations_ = operations; }
  int transfer(bool reads, std::span<const Piece> pieces, std::uint64_t address, std::uint32_t key,
               Name name) override;
  int mark(std::uint64_t id) override;
  /// Nothing more is sent or received: all that is open is flushed.
  void abort();

 private:
  static constexpr std::size_t kPostedOctetsMax = 256 * 1024;

  explicit VerbsLane(rdma_cm_id& id) : id_(id) {}
  Result<void> make_queues(const LaneSize& size);
  void make_thread_domain();
  Result<void> make_memory(const LaneSize& size);
  int post(ibv_send_wr& first, ibv_send_wr*& bad) {
    return sends_in_posts_ ? post_guarded(first, bad) : ibv_post_send(id_.qp, &first, &bad);
  }
  [[gnu::noinline]] int post_guarded(ibv_send_wr& first, ibv_send_wr*& bad);
  bool post(ibv_send_wr& first);
  bool post_write(const ibv_sge& local, unsigned flags, const Sge& target, std::uint32_t message,
                  Tag tag);
  bool post_receives(const std::uint32_t* slots, std::size_t count);
  void handle(const ibv_wc& completion, std::vector<std::uint32_t>& taken);
  void handle_transfer(const ibv_wc& completion);

  rdma_cm_id& id_;
  bool sends_messages_ = true;   ///< iWARP
  bool sends_in_posts_ = false;  ///< which may raise SIGPIPE
  bool armed_ = false;
  bool flushed_ = false;
  ibv_pd* pd_ = nullptr;
  ibv_td* threads_ = nullptr;   ///< one thread at a time posts
  ibv_pd* posts_pd_ = nullptr;  ///< the PD and that; null: the device has no use for it
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  void* memory_ = nullptr;
  std::size_t memory_octets_ = 0;
  std::uint32_t* messages_ = nullptr;  ///< one for each receive
  ibv_mr* send_region_ = nullptr;
  ibv_mr* receive_region_ = nullptr;
  ibv_mr* message_region_ = nullptr;
  ibv_mr* target_region_ = nullptr;
  std::uint32_t receive_entries_ = 0;
  std::atomic<std::uint32_t> kept_{0};  ///< pieces of the receive ring that the device still has
  std::size_t posted_octets_ = 0;
  bool sums_ = false;  ///< the device takes the CRC of what is sent from fill()
  std::unique_ptr<Stream> stream_;
  Operations* operations_ = nullptr;
  std::vector<std::uint32_t> taken_;  ///< receives to post again, between two calls empty
};

}  // namespace weft::sockets

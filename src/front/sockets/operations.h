// The operations of one socket on registered memory: reads and writes of the peer's memory, posted
// sends and receives of the stream, and their completions. Without verbs, threads or waiting.
//
// Transfers (reads and writes) go to the send queue at once and end in its order, which is why a
// number for each is all there is to know of it. Posted sends and receives are work for the stream,
// done by advance() as far as it can go; the rest waits for the next.
//
// Not each transfer's end is told. In the midst of many the end of one in kToldEvery stands for
// those before it, which saves its completion, the look at it and what follows. When nothing
// that will be told is open any more and somebody wants to know, expect_ends() asks.
//
// Two limits: how many posted operations are open, which is until their completions were
// collected; and how many entries of the send queue transfers take, which hold until they are done.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include <weft/sockets.h>

#include "base/result.h"
#include "front/sockets/regions.h"
#include "front/sockets/remote_key.h"
#include "front/sockets/stream.h"

namespace weft::sockets {

/// A run of registered memory.
struct Piece {
  std::uintptr_t address;
  std::uint32_t octets;
  std::uint32_t key;
};

/// What transfers ask of the QP.
class TransferLane {
 public:
  /// A Write gathers so many pieces in one entry of the send queue; a Read has one sink.
  static constexpr std::size_t kGather = 4;
  static constexpr std::size_t entries_of(bool reads, std::size_t pieces) {
    if (pieces == 0) return 1;
    return reads ? pieces : (pieces + kGather - 1) / kGather;
  }
  /// What a transfer is known by.
  struct Name {
    std::uint64_t id;
    bool told;  ///< its end is to be told also if all is well
  };
  /// Reads or writes the pieces, one after the other, at the peer's `address`. Ends with
  /// handle_done(id): once if it is told; if it fails, in any case, maybe more than once. An errno
  /// if nothing was posted.
  virtual int transfer(bool reads, std::span<const Piece> pieces, std::uint64_t address,
                       std::uint32_t key, Name name) = 0;
  /// Does nothing, behind all transfers so far, the youngest of which is `id`, and then has
  /// handle_mark(id) called. An errno if the QP takes nothing any more.
  virtual int mark(std::uint64_t id) = 0;

 protected:
  ~TransferLane() = default;
};

/// Of an operation that a call waits for.
struct Outcome {
  bool done = false;
  int error = 0;
};

/// Who hears of an operation's end: a completion with this context, or the one that waits.
struct Owner {
  std::uint64_t context = 0;
  Outcome* outcome = nullptr;
};

/// One thread at a time.
class Operations {
 public:
  /// How many SQ entries transfers need, for so many operations open at once, and a mark.
  static constexpr std::uint32_t entries_for(std::uint32_t open_max) {
    return transfer_entries_for(open_max) + 1;
  }
  /// While fewer transfers than this are open, each that is posted is told of: a program that has
  /// few may wait for every one.
  static constexpr std::uint32_t kOpenMany = 32;
  /// Among many one in so many is told of, and one in so many octets.
  static constexpr std::uint32_t kToldEvery = 16;
  static constexpr std::uint64_t kToldOctets = 64 * 1024;
  /// So many are told of after a mark was needed: who stops often would need many marks.
  static constexpr std::uint32_t kToldAfterMark = 1024;

  Operations(TransferLane& lane, Regions& regions, std::uint32_t open_max);

  /// Starts a Read or Write. 0 or an errno, as iwarp_post_write has them; with an outcome, EAGAIN
  /// means that entries_free() is less than entries_needed().
  int transfer(bool reads, std::span<const iovec> local, const RemoteMemory& remote,
               std::uint64_t offset, const Owner& owner);
  std::size_t entries_free() const { return entries_max_ - entries_used_; }
  static std::size_t entries_needed(bool reads, std::size_t pieces) {
    return TransferLane::entries_of(reads, pieces);
  }
  /// From the QP: the transfer `id` is done, with an errno if it failed. Those before it that were
  /// not told of went well.
  void handle_done(std::uint64_t id, int error);
  /// The mark behind `id` is done, well or not.
  void handle_mark(std::uint64_t id);
  /// Somebody waits for transfers to end: sees to it that the end of one that is open will be
  /// told. True: that took a mark, which may be done at once.
  bool expect_ends();
  bool mark_open() const { return mark_open_; }
  /// From now on somebody always waits: every end is told.
  void tell_all();
  /// How many completions of the QP tell of `count` transfers, about.
  int ends_of(int count) const;

  Result<void> post_send(std::span<const iovec> local, std::uint64_t context);
  Result<void> post_receive(const iovec& to, bool all, std::uint64_t context);
  /// Does what the stream can do now. What it cannot do any more fails.
  void advance(Stream& stream);
  /// Posted sends that have not all left: nothing may be sent before them.
  bool sends_wait() const { return sends_left_ < sends_.size(); }

  /// All that is open fails.
  void fail_all(int error);
  /// An operation that is not done uses the region.
  bool uses(const Region& region) const {
    return region.last_transfer > transfers_done_ || region.last_send > sends_done_;
  }
  /// No operation uses memory of the program for sending or reading.
  bool drained() const { return transfers_count_ == 0 && sends_.empty(); }
  /// Posted operations whose completion nobody took.
  std::uint32_t open() const { return open_; }
  std::uint32_t completions() const { return completions_count_; }
  int collect(iwarp_completion* to, int count);

 private:
  struct Transfer {
    Owner owner;
    std::uint32_t octets;
    std::uint16_t entries;
    bool reads, told;
  };
  struct Send {
    std::uint64_t context;
    std::uint64_t octets;
    std::uint64_t end;  ///< octets of posted sends up to here, since the beginning
    std::array<Piece, IWARP_IOV_MAX> pieces;
    std::uint32_t count, at;
  };
  struct Receive {
    std::uint64_t context;
    iovec left;
    std::uint64_t got;
    bool all;
  };
  struct Gathered {
    std::array<Piece, IWARP_IOV_MAX> pieces;
    std::array<Region*, IWARP_IOV_MAX> regions;
    std::uint32_t count = 0;
    std::uint64_t octets = 0;
  };

  int gather(std::span<const iovec> local, int rights, Gathered& gathered);
  static constexpr std::uint32_t transfer_entries_for(std::uint32_t open_max) {
    return open_max < IWARP_IOV_MAX ? IWARP_IOV_MAX : open_max;
  }
  bool is_told(bool expected, std::uint64_t octets) const;
  void post_mark();
  void finish_transfers(std::uint64_t id);
  void finish_transfer(int error);
  void finish_send(int error);
  void finish_receive(int error);
  void push_sends(Stream& stream);
  void take_receives(Stream& stream);
  void complete(std::uint64_t context, std::uint64_t octets, int error, iwarp_operation operation);

  TransferLane& lane_;
  Regions& regions_;
  const std::uint32_t open_max_, entries_max_;
  std::uint32_t open_ = 0, entries_used_ = 0;

  std::vector<Transfer> transfers_;  ///< a ring
  std::uint32_t transfers_first_ = 0, transfers_count_ = 0;
  std::uint64_t transfers_done_ = 0;  ///< the id of the youngest that is done; the first has 1
  std::uint32_t told_open_ = 0;       ///< transfers whose end will be told
  std::uint32_t untold_ = 0;          ///< transfers behind the last of them, and behind a mark
  std::uint64_t untold_octets_ = 0;
  std::uint32_t to_tell_ = 0;  ///< of the next transfers so many are told of
  bool mark_open_ = false;
  bool tells_all_ = false;

  std::deque<Send> sends_;
  std::size_t sends_left_ = 0;  ///< the first of them that have left
  std::uint64_t sends_posted_ = 0, sends_done_ = 0;
  std::uint64_t send_octets_ = 0;
  std::deque<Receive> receives_;

  std::vector<iwarp_completion> completions_;  ///< a ring
  std::uint32_t completions_first_ = 0, completions_count_ = 0;
};

}  // namespace weft::sockets

// Staging memory: belongs to the engine and is lent to connections that are busy.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>

#include "base/time.h"
#include "core/transmit_batch.h"

namespace weft::engine {

/// Octets received at once, and the room for one unfinished FPDU before them. Small enough to stay
/// in the second-level cache between the kernel's copy, the CRC and the placement.
inline constexpr std::size_t kReceiveOctets = 256 * 1024;
/// More than the longest FPDU with its markers.
inline constexpr std::size_t kUnfinishedOctetsMax = 68 * 1024;
/// Octets gathered into one sendmsg: 1 MiB of messages, with what is added to them.
inline constexpr std::size_t kTransmitOctetsMax = 1032 * 1024;
/// The same where a CRC is taken. More outgrows the second-level cache, in which the kernel's copy
/// wants to find the octets after that. 512 KiB of messages: as much as gathers
/// (engine/gathering.h), with what is added to them in packets of 1,280 octets and more, or else a
/// call of its own takes what is left.
inline constexpr std::size_t kSummedOctetsMax = 524 * 1024;
/// So much at most when all of it is copied or lent, with what is added to payload. Touched only
/// then.
inline constexpr std::size_t kTransmitStagingOctets = 528 * 1024;
/// Octets of a turn, either way, where another connection waits for small messages, and of an FPDU
/// then: a batch holds one at least. What lands in its place ends with its FPDU, which its sender
/// cuts.
inline constexpr std::size_t kOctetsPerShortTurn = 22 * 1024;
/// What neither receives nor sends more at a time exchanges small messages, which bulk beside them
/// makes room for.
inline constexpr std::size_t kSmallOctets = 4 * 1024;
/// What receives no more at a time keeps its staging for the next: 4 KiB, with what is added.
inline constexpr std::size_t kKeptForOctets = kSmallOctets + 64;
inline constexpr std::size_t kTransmitPieces = 512;
/// What is spliced is referred to by such pages.
inline constexpr std::size_t kPageOctets = 4096;

struct ReceiveBuffer {
  std::size_t begin = 0;  ///< first octet not yet consumed
  std::size_t end = 0;    ///< one past the last octet received
  alignas(64) std::array<std::uint8_t, kUnfinishedOctetsMax + kReceiveOctets> octets;
};

struct TransmitBuffer {
  std::size_t sent = 0;   ///< octets of the batch that the transport took
  std::size_t total = 0;  ///< octets of the batch
  std::size_t share = 0;  ///< octets that are given to the transport at once, at most
  bool spliced = false;      ///< sent as its pages (transport::Stream::splice)
  bool staged = false;       ///< all of it was copied to staging for that
  std::size_t begin = 0;     ///< of its staging; before that lies what was spliced and not read yet
  std::optional<Instant> began;  ///< if it counts how long the sender is busy with it
  std::array<core::Piece, kTransmitPieces> pieces;
  std::size_t piece_count = 0;
  std::array<iovec, kTransmitPieces> vectors;
  std::shared_ptr<void> home;  ///< the memory that it lies in with others; null: in its own
  alignas(kPageOctets) std::array<std::uint8_t, kTransmitStagingOctets> staging;  ///< whole pages

  static void operator delete(TransmitBuffer* buffer, std::destroying_delete_t);
};

inline constexpr const char* kNoStaging = "no memory for staging the octets of the connection";

/// Buffers are made on demand and a few are kept. The one given back last is lent first, for its
/// lines are in this core's caches.
template <typename Buffer>
class BufferPool {
 public:
  /// Null: there is no memory.
  std::unique_ptr<Buffer> borrow() {
    std::unique_ptr<Buffer> buffer(kept_ == 0 ? new (std::nothrow) Buffer  // not zeroed
                                              : free_[--kept_].release());
    if (buffer != nullptr) ++borrowed_;
    return buffer;
  }
  void give_back(std::unique_ptr<Buffer> buffer) {
    --borrowed_;
    if (kept_ < keep_) {
      free_[kept_++] = std::move(buffer);
    } else if (keeps_all()) {
      static_cast<void>(buffer.release());
    }
  }
  std::size_t borrowed() const { return borrowed_; }
  std::size_t kept() const { return kept_; }
  /// From now on none is given back to malloc.
  void keep_all() { keep_ = free_.size(); }

 protected:
  static constexpr std::size_t kKeep = 8, kKeepAll = 64;

  bool keeps_all() const { return keep_ == free_.size(); }

  std::size_t keep_ = kKeep;
  std::array<std::unique_ptr<Buffer>, kKeepAll> free_;
  std::size_t kept_ = 0;
  std::size_t borrowed_ = 0;
};

/// Buffers whose octets another core has just read are in its caches: to write there again, before
/// they have left them, takes several times as long. So kResting of them take turns, more than
/// fit a second-level cache.
///
/// They lie together in the machine's large pages, where it gives us any. What is sent as its pages
/// is counted, queued and read page by page, by both ends.
class TransmitPool : public BufferPool<TransmitBuffer> {
 public:
  static constexpr std::size_t kResting = 7;

  std::unique_ptr<TransmitBuffer> borrow();
  void give_back(std::unique_ptr<TransmitBuffer> buffer);
  /// As give_back(), where another core has read it.
  void give_back_to_rest(std::unique_ptr<TransmitBuffer> buffer);
  /// It can never be used again.
  void lose(std::unique_ptr<TransmitBuffer> buffer);

 private:
  void make_resting();
  void put(std::unique_ptr<TransmitBuffer> buffer, std::size_t place);

  std::shared_ptr<void> home_;  ///< of those that rest, once any does
  std::size_t resting_ = 0;     ///< so many lie there
  std::size_t others_ = 0;      ///< kept below them, and lent when all of them are
};

}  // namespace weft::engine

// Two ends of one in-memory connection and the octets on the way between them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/loopback/loopback_network.h"
#include "transport/loopback/readiness.h"
#include "transport/transport.h"

namespace weft::transport {

/// A bounded queue of octets.
class OctetQueue {
 public:
  explicit OctetQueue(std::size_t capacity) : storage_(capacity) {}

  bool empty() const { return fill_ == 0; }
  bool full() const { return fill_ == storage_.size(); }
  void clear() { fill_ = 0; }

  // The free room and the content, each as up to two runs, front first.
  std::array<iovec, 2> room();
  std::array<iovec, 2> content();
  void produce(std::size_t octets) { fill_ += octets; }
  void consume(std::size_t octets);

 private:
  std::array<iovec, 2> runs(std::size_t first, std::size_t octets);

  std::vector<std::uint8_t> storage_;
  std::size_t first_ = 0;
  std::size_t fill_ = 0;
};

/// One end. `incoming` is what the other end sent and this one has not received.
struct LoopbackEnd {
  explicit LoopbackEnd(std::size_t buffer_octets) : incoming(buffer_octets) {}

  OctetQueue incoming;
  Readiness readiness;
  Address local;
  bool destroyed = false;
  bool fin_sent = false;
  bool send_blocked = false;  ///< the last send() said WouldBlock
  int lost = 0;               ///< the errno that ended the connection for this end
};

/// Invariant: after every call each end's readiness is what loopback_network.h says.
/// Threads: one at a time (the network's lock). `side` is 0 for who connected, 1 for who accepted.
class LoopbackPair {
 public:
  explicit LoopbackPair(const LoopbackOptions& options)
      : options_(options),
        ends_{LoopbackEnd(options.buffer_octets), LoopbackEnd(options.buffer_octets)} {}

  LoopbackEnd& end(int side) { return ends_[static_cast<std::size_t>(side)]; }

  IOResult send(int side, std::span<const iovec> pieces);
  IOResult receive(int side, std::span<const iovec> pieces);
  void close_gracefully(int side);
  void reset(int side);
  /// The Stream of this side is gone.
  void destroy(int side);
  /// This end never comes to be; the other one learns `error`.
  void refuse(int side, int error);

 private:
  void update_readiness();

  LoopbackOptions options_;
  std::array<LoopbackEnd, 2> ends_;
};

/// What the Stream of one side shares with the other side.
struct LoopbackShared {
  explicit LoopbackShared(std::shared_ptr<std::mutex> network_lock, const LoopbackOptions& options)
      : lock(std::move(network_lock)), pair(options), emss(options.emss) {}

  std::shared_ptr<std::mutex> lock;
  LoopbackPair pair;
  std::size_t emss;
};

class LoopbackStream final : public Stream {
 public:
  LoopbackStream(std::shared_ptr<LoopbackShared> shared, int side)
      : shared_(std::move(shared)), side_(side) {}
  ~LoopbackStream() override;

  Result<void> connected() override;
  IOResult send(std::span<const iovec> pieces) override;
  IOResult receive(std::span<const iovec> pieces) override;
  void close_gracefully() override;
  void reset() override;
  std::size_t emss() override { return shared_->emss; }
  int fd() const override { return shared_->pair.end(side_).readiness.fd(); }
  // Set before the stream exists and never changed: no lock.
  Address local() const override { return shared_->pair.end(side_).local; }
  Address peer() const override { return shared_->pair.end(1 - side_).local; }

 private:
  std::shared_ptr<LoopbackShared> shared_;
  int side_;
  bool established_ = false;
};

}  // namespace weft::transport

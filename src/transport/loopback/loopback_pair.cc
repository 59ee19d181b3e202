// How octets, FIN and reset pass between the two ends of an in-memory connection.
#include "transport/loopback/loopback_pair.h"

#include <algorithm>
#include <cerrno>

#include "transport/loopback/caller_memory.h"

namespace weft::transport {
namespace {

bool nothing_in(std::span<const iovec> pieces) {
  return std::all_of(pieces.begin(), pieces.end(), [](const iovec& p) { return p.iov_len == 0; });
}

}  // namespace

std::array<iovec, 2> OctetQueue::runs(std::size_t first, std::size_t octets) {
  first %= storage_.size();
  const std::size_t front = std::min(octets, storage_.size() - first);
  return {iovec{storage_.data() + first, front}, iovec{storage_.data(), octets - front}};
}

std::array<iovec, 2> OctetQueue::room() {
  return runs(first_ + fill_, storage_.size() - fill_);
}

std::array<iovec, 2> OctetQueue::content() {
  return runs(first_, fill_);
}

void OctetQueue::consume(std::size_t octets) {
  first_ = (first_ + octets) % storage_.size();
  fill_ -= octets;
}

IOResult LoopbackPair::send(int side, std::span<const iovec> pieces) {
  LoopbackEnd& own = end(side);
  LoopbackEnd& other = end(1 - side);
  if (own.lost == 0 && other.destroyed) {
    own.lost = EPIPE;
    update_readiness();
  }
  if (own.lost != 0 || own.fin_sent) {
    return {IOResult::Kind::Lost, 0, own.lost != 0 ? own.lost : EPIPE};
  }
  if (nothing_in(pieces)) {
    return {};
  }
  own.send_blocked = other.incoming.full();
  IOResult result;
  if (!own.send_blocked) {
    const std::size_t octets = copy_caller_memory(CopyDirection::FromCaller, pieces,
                                                  other.incoming.room(), options_.guard_memory);
    other.incoming.produce(octets);
    result = octets == 0 ? IOResult{IOResult::Kind::BadMemory, 0, EFAULT}
                         : IOResult{IOResult::Kind::Moved, octets, 0};
  }
  update_readiness();
  return result;
}

IOResult LoopbackPair::receive(int side, std::span<const iovec> pieces) {
  LoopbackEnd& own = end(side);
  const LoopbackEnd& other = end(1 - side);
  if (own.incoming.empty()) {
    // The FIN came before whatever ended the connection afterwards.
    if (other.fin_sent && own.lost != ECONNABORTED) {
      return {IOResult::Kind::Closed, 0, 0};
    }
    return own.lost != 0 ? IOResult{IOResult::Kind::Lost, 0, own.lost} : IOResult{};
  }
  if (nothing_in(pieces)) {
    return {};
  }
  const std::size_t octets = copy_caller_memory(CopyDirection::ToCaller, pieces,
                                                own.incoming.content(), options_.guard_memory);
  if (octets == 0) {
    return {IOResult::Kind::BadMemory, 0, EFAULT};
  }
  own.incoming.consume(octets);
  update_readiness();
  return {IOResult::Kind::Moved, octets, 0};
}

void LoopbackPair::close_gracefully(int side) {
  if (end(side).lost == 0) {
    end(side).fin_sent = true;
  }
  update_readiness();
}

void LoopbackPair::reset(int side) {
  LoopbackEnd& own = end(side);
  LoopbackEnd& other = end(1 - side);
  const bool was_alive = own.lost == 0;
  own.lost = ECONNABORTED;
  own.incoming.clear();
  if (was_alive && other.lost == 0) {
    other.lost = ECONNRESET;
  }
  update_readiness();
}

void LoopbackPair::destroy(int side) {
  LoopbackEnd& own = end(side);
  if (own.lost == 0 && !own.incoming.empty()) {
    reset(side);
  }
  own.fin_sent = own.fin_sent || own.lost == 0;
  own.destroyed = true;
  own.readiness = Readiness();  // nobody waits there; the pair may live on for the other end
  update_readiness();
}

void LoopbackPair::refuse(int side, int error) {
  end(1 - side).lost = error;
  end(side).destroyed = true;
  end(side).readiness = Readiness();
  update_readiness();
}

void LoopbackPair::update_readiness() {
  for (int side : {0, 1}) {
    LoopbackEnd& own = end(side);
    const LoopbackEnd& other = end(1 - side);
    const bool over = own.lost != 0;
    const bool receives = over || !own.incoming.empty() || other.fin_sent;
    const bool sends = own.send_blocked && (!other.incoming.full() || other.destroyed);
    own.readiness.set(receives || sends);
  }
}

LoopbackStream::~LoopbackStream() {
  const std::lock_guard lock(*shared_->lock);
  shared_->pair.destroy(side_);
}

Result<void> LoopbackStream::connected() {
  const std::lock_guard lock(*shared_->lock);
  const int lost = shared_->pair.end(side_).lost;
  if (lost != 0 && !established_) {
    return Error{lost, "the connection could not be established"};
  }
  established_ = true;
  return {};
}

IOResult LoopbackStream::send(std::span<const iovec> pieces) {
  const std::lock_guard lock(*shared_->lock);
  return shared_->pair.send(side_, pieces);
}

IOResult LoopbackStream::receive(std::span<const iovec> pieces) {
  const std::lock_guard lock(*shared_->lock);
  return shared_->pair.receive(side_, pieces);
}

void LoopbackStream::close_gracefully() {
  const std::lock_guard lock(*shared_->lock);
  shared_->pair.close_gracefully(side_);
}

void LoopbackStream::reset() {
  const std::lock_guard lock(*shared_->lock);
  shared_->pair.reset(side_);
}

}  // namespace weft::transport

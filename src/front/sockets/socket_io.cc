// Octets of a socket: sending, receiving, and writing straight into the peer's memory.
#include <algorithm>
#include <cerrno>

#include "front/sockets/service.h"
#include "front/sockets/socket.h"
#include "front/sockets/socket_wait.h"

namespace weft::sockets {

/// Why a write takes nothing, now and later. The first call after a failure hears of it, the rest
/// that nobody reads.
Error Socket::write_error() {
  if (state_ == State::Connected && stream().error() != 0 && !error_told_) {
    error_told_ = true;
    return {stream().error(), "the peer broke the connection"};
  }
  return {EPIPE, "nobody reads"};
}

Result<std::size_t> Socket::send(Cursor from, int, bool blocking) {
  std::optional<NoSignals> none;
  std::unique_lock lock(mutex_);
  if (state_ == State::Connecting) {
    if (!blocking) return Error{EAGAIN, "connecting"};
    auto waited = wait(lock, none, deadline(false),
                       [this] { return state_ != State::Connecting || closing_; });
    if (!waited) return waited.error();
  }
  const Error shared{ESTALE, "another process uses it too"};
  if (relayed_) return shared;
  if (state_ != State::Connected) return Error{EPIPE, "not connected"};
  const std::size_t wanted = from.left();
  if (wanted == 0 && !stream().sending()) return write_error();
  const Deadline last = deadline(false);
  // Who will wait is to hear of a signal that comes before.
  if (blocking && wanted > stream().send_room()) none.emplace();
  Error stopped{EAGAIN, "the peer has to read first"};
  while (from.left() != 0) {
    if (!stream().sending()) {
      stopped = write_error();
      break;
    }
    if (publish_maps() && stream().write(from) != 0) {
      if (lane_->has_much_posted()) drive();
      continue;
    }
    if (drive() && stream().can_write()) continue;
    if (!blocking) break;
    auto waited = wait(lock, none, last, [this] { return stream().can_write() || closing_; });
    if (closing_) waited = Error{EBADF, "closed meanwhile"};
    if (relayed_) waited = shared;
    if (!waited) {
      stopped = waited.error();
      break;
    }
  }
  if (stream().held_octets() != 0) serve_in_background();
  show();
  const std::size_t taken = wanted - from.left();
  if (taken == 0 && wanted != 0) return stopped;
  return taken;
}

Result<std::size_t> Socket::receive(Cursor to, int flags, bool blocking) {
  std::optional<NoSignals> none;
  std::unique_lock lock(mutex_);
  if (state_ == State::Connecting) {
    if (!blocking) return Error{EAGAIN, "connecting"};
    auto waited = wait(lock, none, deadline(true),
                       [this] { return state_ != State::Connecting || closing_; });
    if (!waited) return waited.error();
  }
  const Error shared{ESTALE, "another process uses it too"};
  if (relayed_) return shared;
  if (state_ != State::Connected) return Error{ENOTCONN, "not connected"};
  const std::size_t wanted = to.left();
  const bool peek = (flags & MSG_PEEK) != 0;
  const bool all = (flags & MSG_WAITALL) != 0 && blocking;
  const Deadline last = deadline(true);
  Error stopped{EAGAIN, "nothing came yet"};
  while (to.left() != 0) {
    if (stream().readable_octets() == 0) drive();
    // A peek starts from the first octet each time.
    const std::size_t enough = all && peek ? to.left() : 1;
    if (stream().readable_octets() >= enough || !stream().receiving()) {
      const std::size_t got = stream().read(to, peek);
      if (got != 0 && (!all || peek)) break;
      if (got != 0) {
        if (to.left() != 0 && !none) none.emplace();
        continue;
      }
    }
    if (!stream().receiving() || stream().read_closed()) {
      if (to.left() == wanted && stream().error() != 0 && !error_told_) {
        error_told_ = true;
        return Error{stream().error(), "the peer broke the connection"};
      }
      break;
    }
    if (!blocking) {
      if (to.left() == wanted) return stopped;
      break;
    }
    auto waited = wait(lock, none, last, [&] {
      return stream().readable_octets() >= enough || !stream().receiving() ||
             stream().read_closed() || closing_;
    });
    // A peek that may wait no longer gets what there is.
    if (!waited && peek && !closing_ && !relayed_) stream().read(to, peek);
    if (closing_) waited = Error{EBADF, "closed meanwhile"};
    if (relayed_) waited = shared;
    if (!waited) {
      if (to.left() == wanted) return waited.error();
      break;
    }
  }
  show();
  return wanted - to.left();
}

bool Socket::publish_maps() {
  if (memory_ != nullptr) {
    advance_memory();
    if (memory_sends_wait()) return false;
  }
  for (Map& map : maps_) {
    if (map.told) continue;
    IomapEntry entry;
    entry.offset = map.offset;
    entry.memory = {reinterpret_cast<std::uintptr_t>(map.region->addr), map.region->rkey,
                    static_cast<std::uint32_t>(map.region->length)};
    if (!stream().publish(map.index, entry)) return false;
    map.told = true;
  }
  return true;
}

Result<std::uint64_t> Socket::map(void* memory, std::size_t octets, bool peer_writes,
                                  std::optional<std::uint64_t> offset) {
  std::lock_guard lock(mutex_);
  if (state_ != State::Connected) return Error{EINVAL, "not connected"};
  if (octets == 0 || octets > UINT32_MAX) return Error{EINVAL, "no memory, or too much"};
  Map map;
  while (std::any_of(maps_.begin(), maps_.end(),
                     [&](const Map& other) { return other.index == map.index; })) {
    ++map.index;
  }
  if (peer_writes && map.index >= stream().peer_iomap_entries()) {
    return Error{ENOBUFS, "the peer keeps no more maps"};
  }
  map.offset = offset.value_or(reinterpret_cast<std::uintptr_t>(memory));
  map.told = !peer_writes;
  const int access = peer_writes ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;
  map.region = ibv_reg_mr(lane_->pd(), memory, octets, access);
  if (map.region == nullptr) return Error{errno, "the memory cannot be registered"};
  maps_.push_back(map);
  publish_maps();
  return map.offset;
}

Result<void> Socket::unmap(void* memory, std::size_t octets) {
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(maps_.begin(), maps_.end(), [&](const Map& map) {
    return map.region->addr == memory && map.region->length == octets;
  });
  if (found == maps_.end()) return Error{EINVAL, "not mapped"};
  ibv_dereg_mr(found->region);
  maps_.erase(found);
  return {};
}

Result<std::size_t> Socket::write_at(Cursor from, std::uint64_t offset, int, bool blocking) {
  std::optional<NoSignals> none;
  std::unique_lock lock(mutex_);
  if (state_ != State::Connected) return Error{EINVAL, "not connected"};
  const std::size_t wanted = from.left();
  const Deadline last = deadline(false);
  if (blocking && wanted > stream().send_room()) none.emplace();  // as in send()
  while (from.left() != 0) {
    if (!stream().sending()) {
      if (from.left() != wanted) break;
      return write_error();
    }
    publish_maps();
    // The peer's table may be told of by a message that nobody has taken yet.
    auto taken = stream().write_at(offset + (wanted - from.left()), from);
    if (!taken && drive()) continue;
    if (!taken) {
      if (from.left() != wanted) break;
      return Error{EFAULT, "the peer has mapped nothing there"};
    }
    if (*taken != 0) continue;
    if (drive()) continue;
    if (!blocking) {
      if (from.left() != wanted) break;
      return Error{EAGAIN, "earlier octets have to leave first"};
    }
    auto waited = wait(lock, none, last, [this] {
      return !stream().sending() || stream().direct_room() || closing_;
    });
    if (!waited) return waited.error();
  }
  return wanted - from.left();
}

Result<void> Socket::set_iomap_entries(std::uint32_t entries) {
  std::lock_guard lock(mutex_);
  if (state_ == State::Connected || state_ == State::Connecting) {
    return Error{EINVAL, "connected already"};
  }
  size_.iomap_entries = announced_iomap_entries(entries);
  return {};
}

}  // namespace weft::sockets

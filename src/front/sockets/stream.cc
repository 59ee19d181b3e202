// The stream's state machine.
#include "front/sockets/stream.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/assert.h"

namespace weft::sockets {
namespace {

/// A peer that breaks the rules, as TCP says it.
constexpr int kViolation = ECONNRESET;

/// Reads an entry that the peer may be writing just now: nothing but its length orders the two, of
/// which ThreadSanitizer cannot know. That comes last in memory and is read first, so one that is
/// there has the address that belongs to it.
[[gnu::noinline, gnu::no_sanitize("thread")]] Sge load_shared(const Sge& shared) {
  Sge sge;
  sge.length = __atomic_load_n(&shared.length, __ATOMIC_ACQUIRE);
  sge.key = __atomic_load_n(&shared.key, __ATOMIC_RELAXED);
  sge.address = __atomic_load_n(&shared.address, __ATOMIC_RELAXED);
  return sge;
}

[[gnu::noinline, gnu::no_sanitize("thread")]] IomapEntry load_shared(const IomapEntry& shared) {
  IomapEntry entry;
  entry.memory = load_shared(shared.memory);
  entry.offset = __atomic_load_n(&shared.offset, __ATOMIC_RELAXED);
  return entry;
}

/// The peer fills it again only after we have used all of what it granted.
[[gnu::noinline, gnu::no_sanitize("thread")]] void clear_shared(Sge& shared) { shared.length = 0; }

Octets octets_of(const Sge& sge) {
  return {reinterpret_cast<const std::uint8_t*>(&sge), sizeof sge};
}

/// Data of this part of the ring, or of the entries, may be done without being told of. Each that
/// is told of wakes somebody, mostly to learn nothing that is of use to him.
constexpr std::uint32_t kUntoldPart = 8;

}  // namespace

Stream::Stream(const StreamShape& shape, Lane& lane) : shape_(shape), lane_(lane) {
  weft_assert(shape.target_sgl.size() == kTargetEntries);
  weft_assert(shape.receive_ring.size() % 2 == 0 && shape.receive_ring.size() != 0);
  weft_assert(shape.send_ring.size() >= 2 * kSendRoomMin);
  unread_.resize(shape.receive_entries);
  const auto half = static_cast<std::uint32_t>(shape.receive_ring.size() / 2);
  granted_left_ = half;  // by the offer
  ungranted_ = half;
  grant_at_ = half;
  limit_told_ = shape.receive_entries;
}

ConnectData Stream::offer() const {
  ConnectData data;
  data.big_endian = std::endian::native == std::endian::big;
  data.credits = shape_.receive_entries;
  data.iomap_entries = static_cast<std::uint32_t>(shape_.iomap.size());
  data.target_sgl = {reinterpret_cast<std::uintptr_t>(shape_.target_sgl.data()), shape_.target_key,
                     kTargetEntries};
  data.buffer = {reinterpret_cast<std::uintptr_t>(shape_.receive_ring.data()), shape_.receive_key,
                 static_cast<std::uint32_t>(shape_.receive_ring.size() / 2)};
  return data;
}

void Stream::start(const ConnectData& peer, bool hears_first) {
  weft_assert(!started_);
  started_ = true;
  awaits_word_ = hears_first;
  swaps_ = peer.big_endian != (std::endian::native == std::endian::big);
  peer_sgl_ = peer.target_sgl;
  peer_sgl_next_ = 1 % peer_sgl_.length;
  peer_iomap_entries_ = peer.iomap_entries;
  if (peer.buffer.length != 0) targets_[targets_count_++] = peer.buffer;
  send_limit_ = peer.credits;
  advance();
}

void Stream::handle_message(std::uint32_t message) {
  awaits_word_ = false;
  peer_left_ = peer_left_ || message == make_message(Control::Disconnect);
  // What arrives behind a Disconnect, ours or theirs, is nobody's.
  if (ended()) return;
  const std::uint32_t data = message_data(message);
  switch (static_cast<Op>(message_op(message))) {
    case Op::Data:
      return handle_data(data);
    case Op::Credits:
      send_limit_ = static_cast<std::uint16_t>(data);
      ++targets_told_;
      return take_targets();
    case Op::IomapEntry:
      // The entry itself is in our table already; the message costs a credit like data.
      if (data >= shape_.iomap.size() || arrived_ == limit_told_) return handle_failure(kViolation);
      ++arrived_;
      return;
    case Op::Control:
      return handle_control(data);
  }
  handle_failure(kViolation);
}

void Stream::handle_data(std::uint32_t octets) {
  // A message more than its credits, octets that were not granted, octets after its Shutdown: each
  // would have us deliver what the peer never wrote.
  if (arrived_ == limit_told_ || unread_count_ == unread_.size() || octets > granted_left_ ||
      octets == 0 || !receiving_) {
    return handle_failure(kViolation);
  }
  ++arrived_;
  granted_left_ -= octets;
  unread_[(unread_first_ + unread_count_++) % unread_.size()] = octets;
  unread_octets_ += octets;
}

void Stream::handle_control(std::uint32_t control) {
  switch (static_cast<Control>(control)) {
    case Control::Disconnect:
      over_ = true;
      return;
    case Control::Shutdown:
      receiving_ = false;
      if (wants_shutdown_) over_ = true;
      return;
    case Control::Keepalive:
      return;
  }
  handle_failure(kViolation);
}

/// The peer writes an entry before it tells of it, so there is one look for each that was told.
void Stream::take_targets() {
  for (; targets_told_ != 0 && targets_count_ < targets_.size(); --targets_told_) {
    Sge& shared = shape_.target_sgl[target_next_];
    const Sge granted = load_shared(shared);
    if (granted.length == 0) continue;  // it told of credits alone
    clear_shared(shared);
    target_next_ = (target_next_ + 1) % kTargetEntries;
    targets_[targets_count_++] = granted;
  }
}

void Stream::handle_done(Tag tag) {
  switch (tag.work) {
    case Tag::Work::Data:
    case Tag::Work::Iomap:
    case Tag::Work::Direct:
      sends_open_ -= tag.requests;
      send_used_ -= tag.amount;
      return;
    case Tag::Work::Borrowed:
      --sends_open_;
      borrowed_done_ += tag.amount;
      return;
    case Tag::Work::Leave:
      control_open_ -= tag.amount;
      over_ = true;
      return;
    case Tag::Work::Credits:
    case Tag::Work::Shutdown:
      control_open_ -= tag.amount;
      return;
  }
}

void Stream::handle_failure(int error) {
  if (ended()) return;
  // We said that we leave, so what the peer does with the connection is no error of the stream.
  if (leave_told_) {
    over_ = true;
  } else {
    error_ = error;
  }
}

void Stream::handle_closed() {
  if (!ended()) over_ = true;
}

void Stream::advance() {
  if (!started_ || ended()) return;
  if (credits_due()) give_credits();
  send_held();
  send_end();
}

bool Stream::credits_due() const {
  return receiving_ && !leave_told_ && !awaits_word_ &&
         (ungranted_ >= shape_.receive_ring.size() / 2 ||
          consumed_ - consumed_told_ >= std::max<std::uint32_t>(shape_.receive_entries / 2, 1));
}

void Stream::give_credits() {
  const auto half = static_cast<std::uint32_t>(shape_.receive_ring.size() / 2);
  const bool grants = ungranted_ >= half;
  const std::uint32_t slots = grants ? shape_.slots_each : 1;
  if (!control_free(slots)) return;
  limit_told_ = consumed_ + shape_.receive_entries;
  consumed_told_ = consumed_;
  const std::uint32_t message = make_message(Op::Credits, limit_told_);
  const Tag tag{Tag::Work::Credits, 1, slots};
  if (!grants) return sent(lane_.tell(message, tag), tag);
  const Sge grant{reinterpret_cast<std::uintptr_t>(shape_.receive_ring.data()) + grant_at_,
                  shape_.receive_key, half};
  const Sge entry = swaps_ ? swapped(grant) : grant;
  const Sge target{peer_sgl_.address + std::uint64_t{peer_sgl_next_} * sizeof(Sge), peer_sgl_.key,
                   sizeof(Sge)};
  peer_sgl_next_ = (peer_sgl_next_ + 1) % peer_sgl_.length;
  grant_at_ = (grant_at_ + half) % static_cast<std::uint32_t>(shape_.receive_ring.size());
  ungranted_ -= half;
  granted_left_ += half;
  sent(lane_.write_entry(octets_of(entry), target, message, tag), tag);
}

void Stream::send_end() {
  if (held_ != 0 || !control_free(1)) return;
  // Who has ended both directions leaves; a Shutdown would tell less.
  const bool leaves = wants_leave_ || (wants_shutdown_ && (!receiving_ || read_closed_));
  if (leaves && !leave_told_) {
    leave_told_ = true;
    const Tag tag{Tag::Work::Leave, 1, 1};
    sent(lane_.tell(make_message(Control::Disconnect), tag), tag);
  } else if (wants_shutdown_ && !shutdown_told_ && !leave_told_) {
    shutdown_told_ = true;
    const Tag tag{Tag::Work::Shutdown, 1, 1};
    sent(lane_.tell(make_message(Control::Shutdown), tag), tag);
  }
}

void Stream::sent(bool accepted, Tag tag) {
  if (!accepted) return handle_failure(EIO);
  switch (tag.work) {
    case Tag::Work::Data:
    case Tag::Work::Iomap:
    case Tag::Work::Direct:
    case Tag::Work::Borrowed:
      ++sends_open_;
      return;
    default:
      control_open_ += tag.amount;
  }
}

bool Stream::may_send() const {
  return started_ && sending() && direct_room() && sent_ != send_limit_ && targets_count_ != 0;
}

/// Many short messages use up the peer's receives long before its ring; TCP would take them.
bool Stream::may_hold() const {
  return started_ && sending() && (held_ != 0 || sent_ == send_limit_) &&
         send_room() >= kSendRoomMin;
}

/// So many octets, at most, find room in the send ring in one piece; fewer where the ring ends.
std::size_t Stream::room_at_head(std::size_t octets_max) const {
  const std::size_t size = shape_.send_ring.size();
  return std::min({octets_max, send_room(), size - send_head_, std::size_t{kChunkMax}});
}

MutableOctets Stream::take_room(std::size_t octets) {
  std::uint8_t* room = shape_.send_ring.data() + send_head_;
  send_head_ = static_cast<std::uint32_t>((send_head_ + octets) % shape_.send_ring.size());
  send_used_ += static_cast<std::uint32_t>(octets);
  return {room, octets};
}

/// The next octets of `from`, which leave at once.
Octets Stream::copy_to_room(Cursor& from, std::size_t octets_max) {
  // Who sends little at a time touches no more than that of the ring.
  if (send_used_ == 0) send_head_ = 0;
  const MutableOctets room = take_room(room_at_head(std::min(octets_max, from.left())));
  lane_.fill(room, from);
  return room;
}

/// Where the next `octets` go, at most what is left of the first target, for one message.
Sge Stream::take_target(std::uint32_t octets) {
  Sge& target = targets_[0];
  const Sge place{target.address, target.key, octets};
  target.address += octets;
  target.length -= octets;
  if (target.length == 0) {
    targets_[0] = targets_[1];
    --targets_count_;
    take_targets();
  }
  ++sent_;
  return place;
}

Tag Stream::data_tag(std::uint32_t octets) {
  ++untold_.requests;
  untold_.amount += octets;
  const bool told = untold_.requests >= shape_.send_entries / kUntoldPart ||
                    untold_.amount >= shape_.send_ring.size() / kUntoldPart;
  constexpr Tag kUntold{Tag::Work::Data, 0, 0};
  return told ? std::exchange(untold_, kUntold) : kUntold;
}

void Stream::send_data(Octets chunk) {
  const auto octets = static_cast<std::uint32_t>(chunk.size());
  const Sge place = take_target(octets);
  const Tag tag = data_tag(octets);
  sent(lane_.write(chunk, place, make_message(Op::Data, octets), tag), tag);
}

void Stream::send_held() {
  const std::size_t size = shape_.send_ring.size();
  while (held_ != 0 && !ended() && sends_open_ < shape_.send_entries && sent_ != send_limit_ &&
         targets_count_ != 0) {
    const std::size_t start = (send_head_ + size - held_) % size;
    const std::size_t octets = std::min<std::size_t>(
        {held_, size - start, targets_[0].length, std::size_t{kChunkMax}});
    held_ -= static_cast<std::uint32_t>(octets);
    send_data(shape_.send_ring.subspan(start, octets));
  }
}

std::size_t Stream::write(Cursor& from) {
  const std::size_t before = from.left();
  send_held();
  while (from.left() != 0 && held_ == 0 && may_send()) {
    send_data(copy_to_room(from, targets_[0].length));
  }
  while (from.left() != 0 && may_hold()) {
    const MutableOctets room = take_room(room_at_head(from.left()));
    from.copy_to(room.data(), room.size());
    held_ += static_cast<std::uint32_t>(room.size());
  }
  return before - from.left();
}

std::size_t Stream::read(Cursor& to, bool peek) {
  const std::size_t octets =
      static_cast<std::size_t>(std::min<std::uint64_t>(to.left(), unread_octets_));
  const std::size_t size = shape_.receive_ring.size();
  const std::size_t first = std::min(octets, size - read_at_);
  const Octets ring = shape_.receive_ring;
  lane_.read(to, ring.subspan(read_at_, first), peek);
  if (octets != first) lane_.read(to, ring.first(octets - first), peek);
  if (peek || octets == 0) return octets;
  read_at_ = static_cast<std::uint32_t>((read_at_ + octets) % size);
  unread_octets_ -= octets;
  ungranted_ += static_cast<std::uint32_t>(octets);
  for (auto left = static_cast<std::uint32_t>(octets); left != 0;) {
    std::uint32_t& message = unread_[unread_first_];
    const std::uint32_t part = std::min(left, message);
    message -= part;
    left -= part;
    if (message != 0) break;
    unread_first_ = static_cast<std::uint32_t>((unread_first_ + 1) % unread_.size());
    --unread_count_;
    ++consumed_;
  }
  advance();
  return octets;
}

void Stream::shutdown_write() {
  wants_shutdown_ = true;
  advance();
}

void Stream::shutdown_read() {
  read_closed_ = true;
  advance();
}

void Stream::disconnect() {
  wants_leave_ = true;
  if (!started_) over_ = true;
  advance();
}

std::size_t Stream::write_borrowed(Octets from, std::uint32_t key) {
  std::size_t left = from.size();
  send_held();
  while (left != 0 && held_ == 0 && started_ && sending() && sends_open_ < shape_.send_entries &&
         sent_ != send_limit_ && targets_count_ != 0) {
    const auto octets =
        static_cast<std::uint32_t>(std::min<std::size_t>({left, targets_[0].length, kChunkMax}));
    const Octets chunk = from.subspan(from.size() - left, octets);
    const Sge place = take_target(octets);
    left -= octets;
    borrowed_sent_ += octets;
    const Tag tag{Tag::Work::Borrowed, 1, octets};
    sent(lane_.write_borrowed(chunk, key, place, make_message(Op::Data, octets), tag), tag);
  }
  return from.size() - left;
}

bool Stream::publish(std::uint32_t index, const IomapEntry& entry) {
  send_held();
  if (!started_ || !sending() || held_ != 0 || sends_open_ >= shape_.send_entries ||
      sent_ == send_limit_) {
    return false;
  }
  IomapEntry told = entry;
  if (swaps_) {
    told.offset = __builtin_bswap64(entry.offset);
    told.memory = swapped(entry.memory);
  }
  ++sent_;
  // The table lies behind the SGL, under the same key.
  const Sge target{peer_sgl_.address + std::uint64_t{peer_sgl_.length} * sizeof(Sge) +
                       std::uint64_t{index} * sizeof(IomapEntry),
                   peer_sgl_.key, sizeof(IomapEntry)};
  const Tag tag{Tag::Work::Iomap, 1, 0};
  sent(lane_.write_entry({reinterpret_cast<const std::uint8_t*>(&told), sizeof told}, target,
                         make_message(Op::IomapEntry, index), tag),
       tag);
  return true;
}

std::optional<std::size_t> Stream::write_at(std::uint64_t offset, Cursor& from) {
  for (const IomapEntry& shared : shape_.iomap) {
    const auto [start, memory] = load_shared(shared);
    if (memory.length == 0 || offset < start || offset - start >= memory.length) continue;
    send_held();
    if (!started_ || !sending() || held_ != 0 || !direct_room()) return 0;
    const std::uint64_t skip = offset - start;
    const Octets chunk = copy_to_room(from, memory.length - skip);
    const Tag tag{Tag::Work::Direct, 1, static_cast<std::uint32_t>(chunk.size())};
    const Sge target{memory.address + skip, memory.key, tag.amount};
    sent(lane_.write_silently(chunk, target, tag), tag);
    return chunk.size();
  }
  return std::nullopt;
}

}  // namespace weft::sockets

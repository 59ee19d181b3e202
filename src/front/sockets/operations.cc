// Starting and ending operations.
#include "front/sockets/operations.h"

#include <algorithm>
#include <cerrno>

#include "base/assert.h"

namespace weft::sockets {

Operations::Operations(TransferLane& lane, Regions& regions, std::uint32_t open_max)
    : lane_(lane),
      regions_(regions),
      open_max_(open_max),
      entries_max_(transfer_entries_for(open_max)),
      transfers_(entries_max_),
      completions_(open_max) {
  weft_assert(open_max >= 1 && open_max <= IWARP_OPERATIONS_MAX);
}

/// The registered memory behind an iovec, without its empty pieces. 0 or an errno.
[[gnu::always_inline]] inline int Operations::gather(std::span<const iovec> local, int rights,
                                                     Gathered& gathered) {
  if (local.size() > IWARP_IOV_MAX) return EMSGSIZE;
  for (const iovec& part : local) {
    if (part.iov_len == 0) continue;
    if (part.iov_len > IWARP_OCTETS_MAX - gathered.octets) return EMSGSIZE;
    Region* region = regions_.around_again(part.iov_base, part.iov_len, rights);
    if (region == nullptr) {
      auto found = regions_.around(part.iov_base, part.iov_len, rights);
      if (!found) return found.error().code;
      region = *found;
    }
    gathered.regions[gathered.count] = region;
    gathered.pieces[gathered.count++] = {reinterpret_cast<std::uintptr_t>(part.iov_base),
                                         static_cast<std::uint32_t>(part.iov_len),
                                         region->local_key};
    gathered.octets += part.iov_len;
  }
  return 0;
}

int Operations::transfer(bool reads, std::span<const iovec> local, const RemoteMemory& remote,
                         std::uint64_t offset, const Owner& owner) {
  const std::uint32_t right = reads ? IWARP_REMOTE_READ : IWARP_REMOTE_WRITE;
  if ((remote.rights & right) == 0) return EACCES;
  Gathered gathered;
  if (const int code = gather(local, reads ? IWARP_LOCAL_WRITE : 0, gathered); code != 0) {
    return code;
  }
  if (offset > remote.octets || gathered.octets > remote.octets - offset) return ERANGE;
  const auto entries = static_cast<std::uint32_t>(TransferLane::entries_of(reads, gathered.count));
  const bool waited_for = owner.outcome != nullptr;
  if (entries > entries_free() || (!waited_for && open_ == open_max_)) return EAGAIN;
  const std::uint64_t id = transfers_done_ + transfers_count_ + 1;
  const bool told = is_told(reads || waited_for, gathered.octets);
  // A read of nothing is a write of nothing: it has no sink to name.
  const int code =
      lane_.transfer(reads && gathered.count != 0, {gathered.pieces.data(), gathered.count},
                     remote.address + offset, remote.key, {id, told});
  if (code != 0) return ECONNRESET;
  if (told) {
    ++told_open_;
    untold_ = 0;
    untold_octets_ = 0;
  } else {
    ++untold_;
    untold_octets_ += gathered.octets;
  }
  if (to_tell_ != 0) --to_tell_;
  for (std::uint32_t i = 0; i < gathered.count; ++i) gathered.regions[i]->last_transfer = id;
  std::uint32_t at = transfers_first_ + transfers_count_++;
  if (at >= transfers_.size()) at -= static_cast<std::uint32_t>(transfers_.size());
  Transfer& transfer = transfers_[at];
  transfer.owner = owner;
  transfer.octets = static_cast<std::uint32_t>(gathered.octets);
  transfer.entries = static_cast<std::uint16_t>(entries);
  transfer.reads = reads;
  transfer.told = told;
  entries_used_ += entries;
  if (!waited_for) ++open_;
  return 0;
}

/// Is the next transfer to be told of? `expected`: somebody waits for this very one, or the peer
/// sends what it brings.
bool Operations::is_told(bool expected, std::uint64_t octets) const {
  if (expected || tells_all_ || to_tell_ != 0 || transfers_count_ < kOpenMany) return true;
  // The program cannot post another one before it took completions.
  if (open_ + 1 == open_max_) return true;
  return untold_ + 1 >= kToldEvery || untold_octets_ + octets > kToldOctets;
}

void Operations::handle_done(std::uint64_t id, int error) {
  // What fails in the middle of its pieces may be told of more than once.
  if (id <= transfers_done_) return;
  finish_transfers(id - 1);
  if (transfers_count_ != 0) finish_transfer(error);
}

void Operations::handle_mark(std::uint64_t id) {
  mark_open_ = false;
  finish_transfers(id);
  if (tells_all_ && untold_ != 0) post_mark();
}

/// Those up to `id`, well.
void Operations::finish_transfers(std::uint64_t id) {
  while (transfers_count_ != 0 && transfers_done_ < id) finish_transfer(0);
}

void Operations::finish_transfer(int error) {
  const Transfer& done = transfers_[transfers_first_];
  transfers_first_ = transfers_first_ + 1 == transfers_.size() ? 0 : transfers_first_ + 1;
  --transfers_count_;
  ++transfers_done_;
  entries_used_ -= done.entries;
  told_open_ -= done.told ? 1 : 0;
  if (done.owner.outcome != nullptr) {
    *done.owner.outcome = {true, error};
  } else {
    complete(done.owner.context, done.octets, error, done.reads ? IWARP_READ : IWARP_WRITE);
  }
}

bool Operations::expect_ends() {
  if (transfers_count_ == 0 || told_open_ != 0 || mark_open_) return false;
  post_mark();
  return true;
}

void Operations::post_mark() {
  mark_open_ = lane_.mark(transfers_done_ + transfers_count_) == 0;
  to_tell_ = kToldAfterMark;
  untold_ = 0;
  untold_octets_ = 0;
  // What nobody can tell of any more has failed, as far as we know.
  if (!mark_open_) {
    while (transfers_count_ != 0) finish_transfer(ECONNRESET);
  }
}

void Operations::tell_all() {
  tells_all_ = true;
  // Nobody may be there when the last told one has ended.
  if (untold_ != 0 && !mark_open_) post_mark();
}

int Operations::ends_of(int count) const {
  if (told_open_ == transfers_count_) return count;
  const std::uint64_t told = told_open_ + (mark_open_ ? 1 : 0);
  const auto part = static_cast<std::uint64_t>(count) * told / transfers_count_;
  return std::max(1, static_cast<int>(part));
}

Result<void> Operations::post_send(std::span<const iovec> local, std::uint64_t context) {
  if (open_ == open_max_) return Error{EAGAIN, "as many operations are open as may be"};
  Gathered gathered;
  if (const int code = gather(local, 0, gathered); code != 0) {
    return Error{code, "no memory to send from"};
  }
  // First what may fail.
  sends_.push_back({context, gathered.octets, send_octets_ + gathered.octets, gathered.pieces,
                    gathered.count, 0});
  ++sends_posted_;
  send_octets_ += gathered.octets;
  for (std::uint32_t i = 0; i < gathered.count; ++i) gathered.regions[i]->last_send = sends_posted_;
  ++open_;
  return {};
}

Result<void> Operations::post_receive(const iovec& to, bool all, std::uint64_t context) {
  if (to.iov_len > IWARP_OCTETS_MAX) return Error{EMSGSIZE, "too long"};
  if (open_ == open_max_) return Error{EAGAIN, "as many operations are open as may be"};
  receives_.push_back({context, to, 0, all});
  ++open_;
  return {};
}

void Operations::push_sends(Stream& stream) {
  for (; sends_left_ < sends_.size(); ++sends_left_) {
    Send& send = sends_[sends_left_];
    for (; send.at < send.count; ++send.at) {
      Piece& piece = send.pieces[send.at];
      while (piece.octets != 0) {
        const auto taken = static_cast<std::uint32_t>(stream.write_borrowed(
            {reinterpret_cast<const std::uint8_t*>(piece.address), piece.octets}, piece.key));
        if (taken == 0) return;
        piece.address += taken;
        piece.octets -= taken;
      }
    }
  }
}

void Operations::take_receives(Stream& stream) {
  while (!receives_.empty()) {
    Receive& receive = receives_.front();
    Cursor to({&receive.left, 1});
    const std::size_t got = stream.read(to, false);
    receive.left.iov_base = static_cast<std::uint8_t*>(receive.left.iov_base) + got;
    receive.left.iov_len -= got;
    receive.got += got;
    const bool ends =
        stream.readable_octets() == 0 && (!stream.receiving() || stream.read_closed());
    if (receive.left.iov_len != 0 && (receive.all || receive.got == 0) && !ends) return;
    finish_receive(receive.got == 0 ? stream.error() : 0);
  }
}

void Operations::advance(Stream& stream) {
  push_sends(stream);
  while (!sends_.empty() && sends_left_ != 0 && sends_.front().end <= stream.borrowed_done()) {
    finish_send(0);
  }
  if (stream.ended()) {
    while (!sends_.empty()) finish_send(stream.error() != 0 ? stream.error() : ECONNRESET);
  } else if (!stream.sending() && stream.borrowed_open() == 0) {
    // Shut for writing before they could leave.
    while (!sends_.empty()) finish_send(EPIPE);
  }
  take_receives(stream);
}

void Operations::finish_send(int error) {
  const Send done = sends_.front();
  sends_.pop_front();
  if (sends_left_ != 0) --sends_left_;
  ++sends_done_;
  complete(done.context, done.octets, error, IWARP_SEND);
}

void Operations::finish_receive(int error) {
  const Receive done = receives_.front();
  receives_.pop_front();
  complete(done.context, done.got, error, IWARP_RECEIVE);
}

void Operations::fail_all(int error) {
  while (transfers_count_ != 0) finish_transfer(error);
  while (!sends_.empty()) finish_send(error);
  while (!receives_.empty()) finish_receive(error);
}

void Operations::complete(std::uint64_t context, std::uint64_t octets, int error,
                          iwarp_operation operation) {
  weft_assert(completions_count_ < open_max_);
  std::uint32_t at = completions_first_ + completions_count_++;
  if (at >= open_max_) at -= open_max_;
  const bool moved = error == 0 || operation == IWARP_RECEIVE;
  completions_[at] = {context, moved ? octets : 0, error, static_cast<std::uint32_t>(operation)};
}

int Operations::collect(iwarp_completion* to, int count) {
  int taken = 0;
  for (; taken < count && completions_count_ != 0; ++taken) {
    to[taken] = completions_[completions_first_];
    completions_first_ = completions_first_ + 1 == open_max_ ? 0 : completions_first_ + 1;
    --completions_count_;
    --open_;
  }
  return taken;
}

}  // namespace weft::sockets

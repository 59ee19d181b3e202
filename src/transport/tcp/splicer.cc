// Pages through a pipe into a socket.
#include "transport/tcp/splicer.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <new>

namespace weft::transport {
namespace {

/// A place for every page of a batch, and the most that a user may have without privilege.
constexpr int kPipeOctets = 1 << 20;
/// All of a user's pipes may have so many pages at full length as 64 of these; then others get
/// short ones. Few programs have more than a few streams of bulk.
constexpr int kSplicersMax = 8;
std::atomic<int> splicer_count{0};

/// A place among the few that splice; given back unless it is kept.
class Place {
 public:
  Place() : taken_(splicer_count.fetch_add(1, std::memory_order_relaxed) < kSplicersMax) {}
  ~Place() {
    if (!kept_) splicer_count.fetch_sub(1, std::memory_order_relaxed);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  bool taken() const { return taken_; }
  void keep() { kept_ = true; }

 private:
  const bool taken_;
  bool kept_ = false;
};

/// splice() knows no MSG_NOSIGNAL: the SIGPIPE of a stream that is over is taken back, unless one
/// was there before.
class NoSigpipe {
 public:
  NoSigpipe() {
    raw::call(SYS_rt_sigpending, &pending_, kSetOctets);
    raw::call(SYS_rt_sigprocmask, SIG_BLOCK, &kSigpipe, &before_, kSetOctets);
  }
  ~NoSigpipe() {
    if (may_be_raised_ && (pending_ & kSigpipe) == 0) {
      constexpr timespec kNow = {};
      raw::call(SYS_rt_sigtimedwait, &kSigpipe, nullptr, &kNow, kSetOctets);
    }
    raw::call(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, kSetOctets);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;
  /// A call that moved something before it met the end says how much, and has raised it too.
  void note(long result, std::size_t wanted) {
    may_be_raised_ = result != static_cast<long>(wanted);
  }

 private:
  static constexpr std::size_t kSetOctets = sizeof(std::uint64_t);  // the kernel's
  static constexpr std::uint64_t kSigpipe = std::uint64_t{1} << (SIGPIPE - 1);
  std::uint64_t pending_ = 0, before_ = 0;
  bool may_be_raised_ = false;
};

}  // namespace

Splicer::Splicer(Socket from, Socket to, PeerSocket peer)
    : from_(std::move(from)), to_(std::move(to)), peer_(std::move(peer)) {}

Splicer::~Splicer() {
  splicer_count.fetch_sub(1, std::memory_order_relaxed);
}

std::unique_ptr<Splicer> Splicer::open(int fd, const Address& local, const Address& peer) {
  Place place;
  if (!place.taken()) return nullptr;
  std::optional<PeerSocket> other = PeerSocket::find(fd, local, peer);
  if (!other) return nullptr;
  std::array<int, 2> ends = {-1, -1};
  {
    const NumberGate gate;
    if (raw::call(SYS_pipe2, ends.data(), O_NONBLOCK | O_CLOEXEC) < 0) return nullptr;
    for (int& end : ends) end = out_of_the_way(end);
  }
  Socket from(ends[0]), to(ends[1]);
  // Whoever filters calls may not allow these.
  if (raw::call(SYS_vmsplice, to.fd(), nullptr, 0, 0) < 0 ||
      raw::call(SYS_splice, from.fd(), nullptr, fd, nullptr, 0, 0) < 0) {
    return nullptr;
  }
  if (raw::call(SYS_fcntl, to.fd(), F_SETPIPE_SZ, kPipeOctets) < kPipeOctets) return nullptr;
  std::unique_ptr<Splicer> made(
      new (std::nothrow) Splicer(std::move(from), std::move(to), std::move(*other)));
  if (made != nullptr) place.keep();
  return made;
}

long Splicer::send(int fd, std::span<const iovec> pieces) {
  // Behind what is in the pipe already comes what is not.
  std::size_t skip = piped_;
  while (!pieces.empty() && skip >= pieces.front().iov_len) {
    skip -= pieces.front().iov_len;
    pieces = pieces.subspan(1);
  }
  long refused = 0;
  if (!pieces.empty()) {
    const iovec rest = {static_cast<std::uint8_t*>(pieces.front().iov_base) + skip,
                        pieces.front().iov_len - skip};
    const auto add = [&](std::span<const iovec> list) {
      const long added = raw::call(SYS_vmsplice, to_.fd(), list.data(),
                                   std::min<std::size_t>(list.size(), IOV_MAX), SPLICE_F_NONBLOCK);
      if (added > 0) piped_ += static_cast<std::size_t>(added);
      if (added < 0 && added != -EAGAIN) refused = added;
      return added;
    };
    const bool whole = skip == 0 || add({&rest, 1}) == static_cast<long>(rest.iov_len);
    const auto more = skip == 0 ? pieces : pieces.subspan(1);
    if (whole && !more.empty()) add(more);
  }
  if (piped_ == 0) return refused != 0 ? refused : -EAGAIN;
  NoSigpipe quiet;
  const long moved = raw::call(SYS_splice, from_.fd(), nullptr, fd, nullptr, piped_,
                               SPLICE_F_NONBLOCK);
  quiet.note(moved, piped_);
  if (moved > 0) piped_ -= static_cast<std::size_t>(moved);
  return moved == 0 ? -EAGAIN : moved;
}

std::size_t Splicer::held(int fd, bool fin_sent) {
  // In this order: what is acknowledged meanwhile is counted twice, and nothing not at all.
  int unacknowledged = 0;
  if (raw::call(SYS_ioctl, fd, SIOCOUTQ, &unacknowledged) < 0) unacknowledged = INT_MAX;
  const PeerSocket::Unread unread = peer_.unread();
  // What the kernel does not say may be known the next time. A peer that has our FIN may be named
  // no more, and be read all the same.
  if (unread.kind == PeerSocket::Unread::Kind::Unknown) return SIZE_MAX;
  if (unread.kind == PeerSocket::Unread::Kind::Gone && fin_sent) return SIZE_MAX;
  return static_cast<std::size_t>(unacknowledged) + unread.octets;
}

}  // namespace weft::transport

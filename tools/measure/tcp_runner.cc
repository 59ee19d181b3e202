// Sockets with TCP_NODELAY; waiting is busy, in poll(2), or in the calls themselves.
#include "measure/tcp_runner.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "measure/memory.h"
#include "measure/pattern.h"
#include "measure/sockets.h"

namespace weft::measure {
namespace {

constexpr int kPatienceMs = 10'000;

/// What is left of an octet stream's piece that is being moved.
class Socket {
 public:
  Socket(int fd, Wait wait) : fd_(fd), flags_(wait == Wait::Block ? 0 : MSG_DONTWAIT) {
    // A blocking call ends now and then, so that a wish to stop is seen.
    const timeval slice{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &slice, sizeof slice);
  }
  ~Socket() { ::close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int fd() const { return fd_; }
  std::size_t send(std::span<const std::byte> octets) {
    return moved(::send(fd_, octets.data(), octets.size(), flags_ | MSG_NOSIGNAL), "send");
  }
  std::size_t send(std::span<iovec> pieces) {
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    return moved(::sendmsg(fd_, &message, flags_ | MSG_NOSIGNAL), "sendmsg");
  }
  std::size_t receive(std::span<std::byte> into) {
    const ssize_t got = ::recv(fd_, into.data(), into.size(), flags_);
    if (got == 0) fail("the TCP connection was closed");
    return moved(got, "recv");
  }

 private:
  static std::size_t moved(ssize_t result, const char* call) {
    if (result >= 0) return static_cast<std::size_t>(result);
    if (errno != EAGAIN && errno != EINTR) fail_errno(call);
    return 0;
  }

  int fd_;
  int flags_;
};

class TCPRunner : public Runner {
 public:
  TCPRunner(const Plan& plan, Side side, int fd, std::uint64_t octets, BuffersUsed used = {})
      : plan_(plan), side_(side), socket_(fd, plan.wait), sources_(octets, 1, 1, used) {}

  void arm() override {}
  int descriptor() const override { return socket_.fd(); }
  void woken() override {}
  void check() override {}

 protected:
  const Plan& plan_;
  const Side side_;
  Leg leg_;
  Socket socket_;
  Memory sources_;  // one long source and one long target
};

/// One message at a time, to and fro.
class TCPPing final : public TCPRunner {
 public:
  TCPPing(const Plan& plan, Side side, int fd) : TCPRunner(plan, side, fd, plan.octets_max()) {}

  void prepare(const Leg& leg) override {
    leg_ = leg;
    forget_trips();
    trip_ = 0;
    moved_ = 0;
    sending_ = side_ == Side::Client;
    if (sending_) begin_message();
    last_ns_ = 0;
  }

  bool step() override {
    if (trip_ == leg_.count) return false;
    if (last_ns_ == 0) last_ns_ = now_ns();
    const std::size_t now = sending_
                                ? socket_.send(sources_.source(0, leg_.octets).subspan(moved_))
                                : socket_.receive(sources_.target(0, leg_.octets).subspan(moved_));
    moved_ += now;
    if (moved_ == leg_.octets) finish_message();
    return now > 0;
  }

  bool done() const override { return trip_ == leg_.count; }
  std::uint64_t completed() const override { return trip_; }
  short events() const override { return sending_ ? POLLOUT : POLLIN; }

 private:
  std::uint64_t number(bool from_client) const { return 2 * trip_ + (from_client ? 1 : 2); }

  void begin_message() {
    if (!plan_.verify) return;
    fill_pattern(sources_.source(0, leg_.octets), leg_.seed, number(side_ == Side::Client));
  }

  void finish_message() {
    moved_ = 0;
    const bool received = !sending_;
    if (received && plan_.verify) {
      expect_pattern(sources_.target(0, leg_.octets), leg_.seed, number(side_ == Side::Server));
    }
    sending_ = !sending_;
    // The client's trip ends with what it receives, the server's with what it sends.
    if (received == (side_ == Side::Client)) {
      if (received) {
        const std::uint64_t now = now_ns();
        note_trip(now - last_ns_);
        last_ns_ = now;
      }
      ++trip_;
    }
    if (sending_ && trip_ < leg_.count) begin_message();
  }

  std::uint64_t trip_ = 0;
  std::size_t moved_ = 0;
  std::uint64_t last_ns_ = 0;
  bool sending_ = false;
};

/// Messages one after the other, one way or both. One octet goes the other way: behind the last
/// message, that all has arrived; of messages that are fetched, before the first, that asks for
/// them.
class TCPBlast final : public TCPRunner {
 public:
  TCPBlast(const Plan& plan, Side side, int fd)
      : TCPRunner(plan, side, fd, std::max(plan.octets_max() * plan.buffer_count(), plan.chunk),
                  buffers_used(plan, side)),
        sends_(plan.sends(side == Side::Client)),
        takes_(plan.takes(side == Side::Client)),
        fetched_(plan.op == Op::Read) {}

  void prepare(const Leg& leg) override {
    leg_ = leg;
    const std::uint64_t whole = leg.octets * leg.count;
    to_send_ = sends_ ? whole : 0;
    to_receive_ = takes_ ? whole : 0;
    sent_ = received_ = checked_ = filled_ = 0;
    mark_came_ = !sends_;
    mark_sent_ = !takes_;
    if (plan_.list > 1) lay_out_pieces();
  }

  bool step() override {
    bool moved = false;
    if (fetched_) moved |= move_marks();
    if (may_send()) moved |= send_some();
    if (received_ < to_receive_) moved |= receive_some();
    if (!fetched_ && all_moved()) moved |= move_marks();
    return moved;
  }

  bool done() const override { return mark_came_ && mark_sent_ && all_moved(); }
  std::uint64_t completed() const override { return (sends_ ? sent_ : received_) / leg_.octets; }
  short events() const override {
    const bool wants_out = may_send() || (!mark_sent_ && (fetched_ || received_ == to_receive_));
    const bool wants_in = received_ < to_receive_ || !mark_came_;
    return static_cast<short>((wants_out ? POLLOUT : 0) | (wants_in ? POLLIN : 0));
  }

 private:
  bool all_moved() const { return sent_ == to_send_ && received_ == to_receive_; }
  bool may_send() const { return sent_ < to_send_ && (!fetched_ || mark_came_); }

  bool move_marks() {
    std::byte mark{1};
    bool moved = false;
    if (!mark_sent_) moved = mark_sent_ = socket_.send(std::span<const std::byte>(&mark, 1)) == 1;
    if (!mark_came_) {
      mark_came_ = socket_.receive(std::span(&mark, 1)) == 1;
      moved |= mark_came_;
    }
    return moved;
  }

  /// What one call sends.
  std::uint64_t turn() const { return leg_.octets * plan_.list; }
  /// The octets that messages come from again and again, and those that they arrive in.
  std::uint64_t ring() const { return leg_.octets * plan_.buffer_count(); }
  std::uint64_t target_ring() const {
    return std::max(ring(), plan_.chunk / leg_.octets * leg_.octets);
  }
  std::byte* source() const { return sources_.source(0, 1).data(); }
  std::byte* target() const { return sources_.target(0, 1).data(); }

  bool send_some() {
    // As many messages per call as per post, and first the rest of a call that was cut short.
    const std::uint64_t at = sent_ % ring();
    const std::uint64_t left = std::min(turn() - sent_ % turn(), to_send_ - sent_);
    if (plan_.verify) fill_up_to(sent_ + left);
    const std::size_t now =
        plan_.list == 1 || left < turn()
            ? socket_.send(std::span<const std::byte>(source() + at, left))
            : socket_.send(std::span(pieces_).subspan(at / leg_.octets, plan_.list));
    sent_ += now;
    return now > 0;
  }

  /// Once for a leg, so that a call of many small messages costs no more than it has to.
  void lay_out_pieces() {
    pieces_.resize(plan_.buffer_count());
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      pieces_[i] = {source() + i * leg_.octets, leg_.octets};
    }
  }

  void fill_up_to(std::uint64_t octets) {
    for (; filled_ * leg_.octets < octets; ++filled_) {
      fill_pattern({source() + filled_ * leg_.octets % ring(), leg_.octets}, leg_.seed, filled_);
    }
  }

  bool receive_some() {
    const std::uint64_t at = received_ % target_ring();
    const std::uint64_t wanted = plan_.chunk > 0 ? plan_.chunk : turn() - received_ % turn();
    const std::uint64_t left = std::min({wanted, target_ring() - at, to_receive_ - received_});
    const std::size_t now = socket_.receive({target() + at, left});
    received_ += now;
    if (plan_.verify) {
      for (; (checked_ + 1) * leg_.octets <= received_; ++checked_) {
        expect_pattern({target() + checked_ * leg_.octets % target_ring(), leg_.octets}, leg_.seed,
                       checked_);
      }
    }
    return now > 0;
  }

  const bool sends_, takes_, fetched_;
  std::vector<iovec> pieces_;                   // all messages of the ring, for lists
  std::uint64_t to_send_ = 0, to_receive_ = 0;  // octets
  std::uint64_t sent_ = 0, received_ = 0;
  std::uint64_t filled_ = 0, checked_ = 0;  // messages
  bool mark_came_ = true, mark_sent_ = true;
};

}  // namespace

std::unique_ptr<Runner> make_tcp_runner(const Plan& plan, Side side, int fd) {
  if (plan.tool == Tool::Ping) return std::make_unique<TCPPing>(plan, side, fd);
  return std::make_unique<TCPBlast>(plan, side, fd);
}

int accept_tcp(int listener, Line& line) {
  constexpr int kSliceMs = 200;
  pollfd waiting{listener, POLLIN, 0};
  for (int waited = 0; ::poll(&waiting, 1, kSliceMs) <= 0; waited += kSliceMs) {
    if (interrupted()) throw Interrupted();
    line.check_peer();
    if (waited > kPatienceMs) fail("the client's TCP connection did not come");
  }
  return accept_socket(listener);
}

}  // namespace weft::measure

// Plain TCP with the same shape: the baseline. Both ends busy-poll, as the RDMA ends do.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "bench/medium.h"
#include "bench/sockets.h"

namespace weft::bench {
namespace {

/// A receiver of many small messages reads this much at a time, as any program would that cares.
constexpr std::size_t kReadOctets = 64 * 1024;
constexpr std::size_t kBatchMax = 64;

class TCPEnd final : public Medium {
 public:
  TCPEnd(std::vector<int> fds, Buffers& buffers) : fds_(std::move(fds)), buffers_(buffers) {}
  ~TCPEnd() override {
    for (const int fd : fds_) ::close(fd);
  }

  void prepare(const Leg& leg, Role role) override {
    prepare_buffers(leg, buffers_);
    fd_ = fds_[leg.choice];
    // Who sleeps, sleeps in the calls themselves.
    const bool sleeps =
        leg.work == Work::WriteEvent || (leg.work == Work::WritePassive && role == Role::Follower);
    wait_ = sleeps ? 0 : MSG_DONTWAIT;
  }

  Sample lead(const Leg& leg) override {
    if (is_latency(leg.work)) return ping(leg);
    const std::uint64_t begin = now_ns();
    if (leg.work == Work::ReadBandwidth) {
      send_mark();
      receive_stream(leg);
    } else {
      send_stream(leg);
      receive_mark();
    }
    return {.seconds = static_cast<double>(now_ns() - begin) * 1e-9};
  }

  void follow(const Leg& leg) override {
    if (is_latency(leg.work)) {
      for (std::uint64_t trip = 0; trip < leg.count; ++trip) {
        receive_message(leg, trip);
        send_message(leg, trip);
      }
    } else if (leg.work == Work::ReadBandwidth) {
      receive_mark();
      send_stream(leg);
    } else {
      receive_stream(leg);
      send_mark();
    }
  }

 private:
  Sample ping(const Leg& leg) {
    Sample sample;
    sample.trips_ns.reserve(leg.count);
    const std::uint64_t begin = now_ns();
    std::uint64_t last = begin;
    for (std::uint64_t trip = 0; trip < leg.count; ++trip) {
      send_message(leg, trip);
      receive_message(leg, trip);
      const std::uint64_t now = now_ns();
      sample.trips_ns.push_back(static_cast<std::uint32_t>((now - last) / 2));
      last = now;
    }
    sample.seconds = static_cast<double>(last - begin) * 1e-9;
    return sample;
  }

  void send_message(const Leg& leg, std::uint64_t trip) {
    const std::uint64_t mark = trip_mark(leg, trip);
    std::memcpy(buffers_.source() + leg.octets - sizeof mark, &mark, sizeof mark);
    send_octets(buffers_.source(), leg.octets);
  }

  void receive_message(const Leg& leg, std::uint64_t trip) {
    receive_octets(buffers_.target(), leg.octets);
    std::uint64_t mark = 0;
    std::memcpy(&mark, buffers_.target() + leg.octets - sizeof mark, sizeof mark);
    if (mark != trip_mark(leg, trip)) fail("wrong data in TCP round trip {}", trip);
  }

  void send_stream(const Leg& leg) {
    if (leg.batch == 1) {
      for (std::uint64_t sent = 0; sent < leg.count; ++sent) {
        send_octets(buffers_.source() + sent * leg.octets % leg.span(), leg.octets);
      }
      return;
    }
    std::array<iovec, kBatchMax> pieces{};
    for (std::uint64_t i = 0; i < leg.batch; ++i) {
      pieces[i] = {buffers_.source() + i * leg.octets, leg.octets};
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = leg.batch;
    const std::size_t whole = leg.batch * leg.octets;
    for (std::uint64_t sent = 0; sent < leg.count; sent += leg.batch) {
      ssize_t taken = 0;
      while ((taken = ::sendmsg(fd_, &message, wait_ | MSG_NOSIGNAL)) < 0) retry("sendmsg");
      // The pieces lie side by side, so what is left of a short call is one piece.
      const auto done = static_cast<std::size_t>(taken);
      if (done < whole) send_octets(buffers_.source() + done, whole - done);
    }
  }

  /// Every turn through the target leaves the same octets there, so the last one can be verified.
  void receive_stream(const Leg& leg) {
    const std::size_t turn = leg.octets * leg.batch;
    std::uint64_t left = leg.count * leg.octets;
    if (leg.work != Work::WriteRate) {
      for (std::uint64_t at = 0; at < left; at += turn) {
        receive_octets(buffers_.target() + at % leg.span(), turn);
      }
      return;
    }
    // Many messages per call into a ring of whole turns.
    const std::size_t ring = kReadOctets / turn * turn;
    for (std::size_t at = 0; left > 0;) {
      const ssize_t got = ::recv(fd_, buffers_.target() + at, ring - at, wait_);
      if (got <= 0) {
        if (got == 0) fail("the TCP connection was closed");
        retry("recv");
        continue;
      }
      left -= static_cast<std::uint64_t>(got);
      at = (at + static_cast<std::size_t>(got)) % ring;
    }
  }

  void send_mark() {
    const std::byte mark{1};
    send_octets(&mark, 1);
  }
  void receive_mark() {
    std::byte mark{};
    receive_octets(&mark, 1);
  }

  void send_octets(const std::byte* octets, std::size_t count) {
    while (count > 0) {
      const ssize_t taken = ::send(fd_, octets, count, wait_ | MSG_NOSIGNAL);
      if (taken < 0) {
        retry("send");
        continue;
      }
      octets += taken;
      count -= static_cast<std::size_t>(taken);
    }
  }

  void receive_octets(std::byte* octets, std::size_t count) {
    while (count > 0) {
      const ssize_t got = ::recv(fd_, octets, count, wait_);
      if (got == 0) fail("the TCP connection was closed");
      if (got < 0) {
        retry("recv");
        continue;
      }
      octets += got;
      count -= static_cast<std::size_t>(got);
    }
  }

  static void retry(const char* call) {
    if (errno != EAGAIN && errno != EINTR) fail_errno(call);
  }

  std::vector<int> fds_;  // one for each of kTCPChoices
  int fd_ = -1;
  int wait_ = 0;
  Buffers& buffers_;
};

}  // namespace

std::unique_ptr<Medium> make_tcp(Medium::Role role, const std::string& address, Control& control,
                                 Buffers& buffers, const std::string& congestion) {
  std::vector<int> fds;
  for (const std::uint32_t octets : kTCPChoices) {
    fds.push_back(open_connection(role, address, control, octets, congestion));
  }
  return std::make_unique<TCPEnd>(std::move(fds), buffers);
}

}  // namespace weft::bench

// Two plain connections of one process: the stream is asked without waiting, the pings as told.
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "bench/beside.h"
#include "measure/sockets.h"

namespace weft::bench {
namespace {

int open_connection(const Place& place) {
  if (place.role == Role::Leader) {
    return connect_socket(place.address, place.control.get<std::uint16_t>());
  }
  const Listener listener = open_listener(place.address);
  place.control.put(listener.port);
  const int fd = accept_socket(listener.fd);
  ::close(listener.fd);
  return fd;
}

class BesideTCP final : public BesidePair {
 public:
  BesideTCP(const Place& place, PingWait wait)
      : ping_(open_connection(place)),
        bulk_(open_connection(place)),
        ping_flags_(wait == PingWait::Sleeping ? 0 : MSG_DONTWAIT),
        octets_(kBulkOctets) {}
  ~BesideTCP() override {
    ::close(ping_);
    ::close(bulk_);
  }

  void send_ping(std::uint64_t mark) override {
    while (::send(ping_, &mark, sizeof mark, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) retry("send");
  }
  bool has_ping(std::uint64_t mark) override {
    std::uint64_t seen = 0;
    // Eight octets sent by one call come by one call.
    const ssize_t got = ::recv(ping_, &seen, sizeof seen, ping_flags_);
    if (got < 0) {
      retry("recv");
      return false;
    }
    if (got != sizeof seen || seen != mark) fail("wrong data beside a bulk stream");
    return true;
  }

  std::uint64_t feed() override {
    const ssize_t taken =
        ::send(bulk_, octets_.data(), octets_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (taken >= 0) return static_cast<std::uint64_t>(taken);
    retry("send");
    return 0;
  }
  void end_feeding() override {}

  void drain() override {
    const ssize_t got = ::recv(bulk_, octets_.data(), octets_.size(), MSG_DONTWAIT);
    if (got < 0) {
      retry("recv");
    } else {
      drained_ += static_cast<std::uint64_t>(got);
    }
  }
  void end_draining(std::uint64_t total) override {
    while (drained_ < total) drain();
    drained_ = 0;
  }

 private:
  static void retry(const char* call) {
    if (errno != EAGAIN && errno != EINTR) fail_errno(call);
  }

  int ping_, bulk_;
  int ping_flags_;  ///< of recv
  std::vector<std::byte> octets_;
  std::uint64_t drained_ = 0;
};

}  // namespace

std::unique_ptr<End> make_beside_tcp(const Place& place) {
  return make_beside(std::make_unique<BesideTCP>(place, PingWait::Polling), place.control);
}

std::unique_ptr<End> make_mixed_tcp(const Place& place) {
  return make_mixed(std::make_unique<BesideTCP>(place, PingWait::Sleeping), place.control);
}

}  // namespace weft::bench

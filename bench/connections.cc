// Connecting, one after the other, and what an idle connection costs in memory.
//
// Both ends sleep for what comes next, for TCP in accept and recv, for RDMA in rdma_get_cm_event:
// no program polls for connections.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "bench/end.h"
#include "bench/fleet.h"
#include "measure/sockets.h"

namespace weft::bench {
namespace {

/// What both sides of a plain connection say once, as large as an MPA Request without private data.
constexpr std::size_t kGreetingOctets = 20;

void exchange(bool first, int fd) {
  std::array<char, kGreetingOctets> greeting{};
  const auto say = [&] {
    if (::send(fd, greeting.data(), greeting.size(), MSG_NOSIGNAL) != kGreetingOctets) {
      fail_errno("send");
    }
  };
  if (first) say();
  if (::recv(fd, greeting.data(), greeting.size(), MSG_WAITALL) != kGreetingOctets) {
    fail_errno("recv");
  }
  if (!first) say();
}

class ConnectTCP final : public End {
 public:
  explicit ConnectTCP(const Place& place) : address_(place.address) {
    fds_.reserve(kConnectionsAtOnceMax);
    if (place.role == Role::Leader) {
      port_ = place.control.get<std::uint16_t>();
    } else {
      const Listener listener = open_listener(place.address);
      listener_ = listener.fd;
      place.control.put(listener.port);
    }
  }
  ~ConnectTCP() override {
    if (listener_ >= 0) ::close(listener_);
  }

  Sample lead(const Leg& leg) override {
    const std::uint64_t begin = now_ns();
    for (std::uint64_t i = 0; i < leg.count; ++i) {
      fds_.push_back(connect_socket(address_, port_));
      exchange(true, fds_.back());
    }
    const std::uint64_t took = now_ns() - begin;
    close_all();
    return {.seconds = static_cast<double>(took) * 1e-9};
  }

  void follow(const Leg& leg) override {
    for (std::uint64_t i = 0; i < leg.count; ++i) {
      fds_.push_back(accept_socket(listener_));
      exchange(false, fds_.back());
    }
    close_all();
  }

 private:
  void close_all() {
    for (const int fd : fds_) close_at_once(fd);
    fds_.clear();
  }

  std::string address_;
  std::uint16_t port_ = 0;
  int listener_ = -1;
  std::vector<int> fds_;
};

class ConnectRDMA final : public End {
 public:
  explicit ConnectRDMA(const Place& place)
      : fleet_(place, {.connections_max = kConnectionsAtOnceMax}) {}

  Sample lead(const Leg& leg) override {
    const std::uint64_t took = fleet_.grow(leg.count);
    fleet_.disband();
    return {.seconds = static_cast<double>(took) * 1e-9};
  }
  void follow(const Leg& leg) override {
    fleet_.grow(leg.count);
    fleet_.disband();
  }

 private:
  Fleet fleet_;
};

/// Memory that belongs to this process alone.
double private_octets() {
  std::ifstream in("/proc/self/smaps_rollup");
  double kib = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("Private_", 0) == 0) kib += std::stod(line.substr(line.find(':') + 1));
  }
  if (kib == 0) fail("/proc/self/smaps_rollup tells nothing about memory");
  return kib * 1024;
}

/// Every leg adds leg.connections to those there are, and leaves them idle.
class IdleRDMA final : public End {
 public:
  explicit IdleRDMA(const Place& place)
      : control_(place.control),
        fleet_(place, {.connections_max = (kIdleLegs + 1) * kIdleConnectionsMax}) {}

  Sample lead(const Leg& leg) override {
    Sample sample;
    const double mine = measure(leg);
    sample.value = std::max(mine, control_.get<double>());
    return sample;
  }
  void follow(const Leg& leg) override { control_.put(measure(leg)); }

 private:
  double measure(const Leg& leg) {
    const double before = private_octets();
    fleet_.grow(leg.connections);
    return (private_octets() - before) / static_cast<double>(leg.connections);
  }

  Control& control_;
  Fleet fleet_;
};

}  // namespace

std::unique_ptr<End> make_connect_tcp(const Place& place) {
  return std::make_unique<ConnectTCP>(place);
}
std::unique_ptr<End> make_connect_rdma(const Place& place) {
  return std::make_unique<ConnectRDMA>(place);
}
std::unique_ptr<End> make_idle_rdma(const Place& place) {
  return std::make_unique<IdleRDMA>(place);
}

}  // namespace weft::bench

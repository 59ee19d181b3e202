// Many plain connections by epoll: a client and a server, one thread each, both asking all the
// time.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "bench/end.h"
#include "bench/requests.h"
#include "measure/sockets.h"

namespace weft::bench {
namespace {

constexpr int kEventsMax = 256;

class RequestsTCP final : public End {
 public:
  RequestsTCP(const Place& place, std::size_t connections) {
    message_.fill(std::byte{0x5A});
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ < 0) fail_errno("epoll_create1");
    fds_.reserve(connections);
    if (place.role == Role::Follower) {
      accept_all(place, connections);
    } else {
      connect_all(place, connections);
    }
  }
  ~RequestsTCP() override {
    for (const int fd : fds_) close_at_once(fd);
    ::close(epoll_);
  }

  Sample lead(const Leg& leg) override {
    RequestBook book(leg);
    const std::uint64_t begin = now_ns();
    for (std::size_t i = 0; i < fds_.size(); ++i) ask(i, book);
    while (book.left() > 0) {
      for_each_ready([&](std::size_t i) {
        const auto answer = receive(fds_[i], kAnswerOctets);
        if (book.take(i, answer)) ask(i, book);
      });
    }
    return {.seconds = static_cast<double>(now_ns() - begin) * 1e-9};
  }

  void follow(const Leg& leg) override {
    RequestBook book(leg);
    while (book.left() > 0) {
      for_each_ready([&](std::size_t i) {
        const auto request = receive(fds_[i], kRequestOctets);
        book.take(i, request);
        send(fds_[i], &request, sizeof request);
      });
    }
  }

 private:
  void ask(std::size_t i, const RequestBook& book) {
    const Request request = book.current(i);
    std::memcpy(message_.data(), &request, sizeof request);
    send(fds_[i], message_.data(), message_.size());
  }

  template <typename Handle>
  void for_each_ready(Handle handle) {
    std::array<epoll_event, kEventsMax> events;
    const int count = ::epoll_wait(epoll_, events.data(), kEventsMax, 0);
    if (count < 0 && errno != EINTR) fail_errno("epoll_wait");
    for (int i = 0; i < count; ++i) handle(events[static_cast<std::size_t>(i)].data.u64);
  }

  /// One message; it was sent by one call, so what is not here yet is on its way.
  Request receive(int fd, std::size_t octets) {
    for (std::size_t have = 0; have < octets;) {
      const ssize_t got = ::recv(fd, message_.data() + have, octets - have, MSG_DONTWAIT);
      if (got == 0) fail("a TCP connection was closed");
      if (got < 0 && errno != EAGAIN && errno != EINTR) fail_errno("recv");
      if (got > 0) have += static_cast<std::size_t>(got);
    }
    Request request{};
    std::memcpy(&request, message_.data(), sizeof request);
    return request;
  }

  /// Never waits in earnest: a socket buffer takes more than the one message that is open.
  static void send(int fd, const void* octets, std::size_t count) {
    const auto* at = static_cast<const std::byte*>(octets);
    while (count > 0) {
      const ssize_t taken = ::send(fd, at, count, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (taken < 0 && errno != EAGAIN && errno != EINTR) fail_errno("send");
      if (taken <= 0) continue;
      at += taken;
      count -= static_cast<std::size_t>(taken);
    }
  }

  void add(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = fds_.size();
    fds_.push_back(fd);
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) fail_errno("epoll_ctl");
  }

  void accept_all(const Place& place, std::size_t connections) {
    const Listener listener = open_listener(place.address);
    place.control.put(listener.port);
    while (fds_.size() < connections) add(accept_socket(listener.fd));
    ::close(listener.fd);
  }

  void connect_all(const Place& place, std::size_t connections) {
    const auto port = place.control.get<std::uint16_t>();
    while (fds_.size() < connections) add(connect_socket(place.address, port));
  }

  int epoll_ = -1;
  std::vector<int> fds_;
  std::array<std::byte, kRequestOctets> message_{};
};

}  // namespace

std::unique_ptr<End> make_requests_tcp(const Place& place, std::uint64_t connections) {
  return std::make_unique<RequestsTCP>(place, connections);
}

}  // namespace weft::bench

// Socket options: those that mean something to a stream over RDMA, and the rest as TCP answers
// them.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "front/sockets/addresses.h"
#include "front/sockets/calls.h"
#include "front/sockets/kernel.h"
#include "front/sockets/no_memory.h"

namespace weft::sockets {
namespace {

constexpr std::uint32_t kRingMin = 16 * 1024;
constexpr std::uint32_t kRingMax = 16 * 1024 * 1024;
constexpr std::uint16_t kEntriesMin = 16;
constexpr std::uint16_t kEntriesMax = 16 * 1024;
constexpr std::size_t kOptionOctetsMax = 256;

int fail(int code) {
  errno = code;
  return -1;
}

/// A TCP socket of the kernel's for a moment: it judges options and knows their first values.
class Judge {
 public:
  explicit Judge(int family, int type = SOCK_STREAM)
      : fd_(kernel::socket(family, type | SOCK_CLOEXEC, 0)) {}
  ~Judge() {
    if (fd_ >= 0) kernel::close(fd_);
  }
  Judge(const Judge&) = delete;
  Judge& operator=(const Judge&) = delete;
  int fd() const { return fd_; }
  bool is_there() const { return fd_ >= 0; }

 private:
  int fd_;
};

std::optional<int> number(const void* value, socklen_t octets) {
  int result = 0;
  if (value == nullptr || octets < sizeof result) return {};
  std::memcpy(&result, value, sizeof result);
  return result;
}

template <typename T>
int give_value(const T& from, void* value, socklen_t* octets) {
  *octets = std::min<socklen_t>(*octets, sizeof from);
  std::memcpy(value, &from, *octets);
  return 0;
}

std::uint32_t ring_octets(int wanted) {
  const auto size = std::clamp<std::int64_t>(wanted, kRingMin, kRingMax);
  return static_cast<std::uint32_t>(size) & ~std::uint32_t{4095};
}

int set_timeout(Socket& socket, bool receiving, const void* value, socklen_t octets) {
  timeval limit{};
  if (value == nullptr || octets < sizeof limit) return fail(EINVAL);
  std::memcpy(&limit, value, sizeof limit);
  if (limit.tv_usec < 0 || limit.tv_usec >= 1'000'000) return fail(EDOM);
  if ((limit.tv_sec == 0 && limit.tv_usec == 0) || limit.tv_sec >= kForEverS) {
    socket.set_timeouts(receiving, {});
  } else if (limit.tv_sec < 0) {
    socket.set_timeouts(receiving, Clock::duration::zero());
  } else {
    socket.set_timeouts(
        receiving, std::chrono::seconds(limit.tv_sec) + std::chrono::microseconds(limit.tv_usec));
  }
  return 0;
}

int get_timeout(Socket& socket, bool receiving, void* value, socklen_t* octets) {
  timeval limit{};
  if (const auto wait = socket.timeout(receiving); wait) {
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(*wait).count();
    limit = {static_cast<time_t>(micros / 1'000'000), static_cast<suseconds_t>(micros % 1'000'000)};
  }
  return give_value(limit, value, octets);
}

/// Remembers what the kernel would take.
int keep(Socket& socket, int level, int name, const void* value, socklen_t octets) {
  if (octets > kOptionOctetsMax) return fail(EINVAL);
  const Judge judge(socket.family());
  if (kernel::setsockopt(judge.fd(), level, name, value, octets) != 0) return -1;
  // As the kernel would say it afterwards.
  std::array<std::uint8_t, kOptionOctetsMax> read{};
  socklen_t size = read.size();
  if (kernel::getsockopt(judge.fd(), level, name, read.data(), &size) != 0) return 0;
  std::lock_guard lock(socket.options_mutex);
  socket.options[{level, name}].assign(read.begin(), read.begin() + size);
  return 0;
}

int recall(Socket& socket, int level, int name, void* value, socklen_t* octets) {
  {
    std::lock_guard lock(socket.options_mutex);
    const auto found = socket.options.find({level, name});
    if (found != socket.options.end()) {
      *octets = std::min(*octets, static_cast<socklen_t>(found->second.size()));
      std::memcpy(value, found->second.data(), *octets);
      return 0;
    }
  }
  const Judge judge(socket.family());
  return kernel::getsockopt(judge.fd(), level, name, value, octets);
}

using Value = std::vector<std::uint8_t>;

/// As the kernel says it; empty: it does not.
Value value_of(int fd, int level, int name) {
  Value value(kOptionOctetsMax);
  auto size = static_cast<socklen_t>(value.size());
  if (kernel::getsockopt(fd, level, name, value.data(), &size) != 0) size = 0;
  value.resize(size);
  return value;
}

/// All that a program may set on a TCP socket and read again.
constexpr std::pair<int, int> kCarried[] = {
    {SOL_SOCKET, SO_BINDTODEVICE},
    {SOL_SOCKET, SO_BROADCAST},
    {SOL_SOCKET, SO_BUSY_POLL},
    {SOL_SOCKET, SO_DEBUG},
    {SOL_SOCKET, SO_DONTROUTE},
    {SOL_SOCKET, SO_KEEPALIVE},
    {SOL_SOCKET, SO_LINGER},
    {SOL_SOCKET, SO_MARK},
    {SOL_SOCKET, SO_MAX_PACING_RATE},
    {SOL_SOCKET, SO_OOBINLINE},
    {SOL_SOCKET, SO_PRIORITY},
    {SOL_SOCKET, SO_RCVBUF},
    {SOL_SOCKET, SO_RCVLOWAT},
    {SOL_SOCKET, SO_RCVTIMEO},
    {SOL_SOCKET, SO_REUSEADDR},
    {SOL_SOCKET, SO_REUSEPORT},
    {SOL_SOCKET, SO_SNDBUF},
    {SOL_SOCKET, SO_SNDTIMEO},
    {SOL_SOCKET, SO_TIMESTAMP},
    {SOL_SOCKET, SO_TIMESTAMPNS},
    {IPPROTO_TCP, TCP_CONGESTION},
    {IPPROTO_TCP, TCP_CORK},
    {IPPROTO_TCP, TCP_DEFER_ACCEPT},
    {IPPROTO_TCP, TCP_FASTOPEN},
    {IPPROTO_TCP, TCP_FASTOPEN_CONNECT},
    {IPPROTO_TCP, TCP_KEEPCNT},
    {IPPROTO_TCP, TCP_KEEPIDLE},
    {IPPROTO_TCP, TCP_KEEPINTVL},
    {IPPROTO_TCP, TCP_LINGER2},
    {IPPROTO_TCP, TCP_MAXSEG},
    {IPPROTO_TCP, TCP_NODELAY},
    {IPPROTO_TCP, TCP_NOTSENT_LOWAT},
    {IPPROTO_TCP, TCP_QUICKACK},
    {IPPROTO_TCP, TCP_SAVE_SYN},
    {IPPROTO_TCP, TCP_SYNCNT},
    {IPPROTO_TCP, TCP_USER_TIMEOUT},
    {IPPROTO_TCP, TCP_WINDOW_CLAMP},
    {IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT},
    {IPPROTO_IP, IP_FREEBIND},
    {IPPROTO_IP, IP_MTU_DISCOVER},
    {IPPROTO_IP, IP_RECVERR},
    {IPPROTO_IP, IP_TOS},
    {IPPROTO_IP, IP_TRANSPARENT},
    {IPPROTO_IP, IP_TTL},
    {IPPROTO_IPV6, IPV6_MTU_DISCOVER},
    {IPPROTO_IPV6, IPV6_RECVERR},
    {IPPROTO_IPV6, IPV6_TCLASS},
    {IPPROTO_IPV6, IPV6_UNICAST_HOPS},
    {IPPROTO_IPV6, IPV6_V6ONLY},
};

/// Does what an option is for, if that is something here. The kernel tells twice the size that was
/// set.
void carry(Socket& to, int level, int name, const Value& value) {
  const auto octets = static_cast<socklen_t>(value.size());
  const int told = number(value.data(), octets).value_or(0);
  if (level == SOL_SOCKET && name == SO_SNDBUF) to.size().send_octets = ring_octets(told / 2);
  if (level == SOL_SOCKET && name == SO_RCVBUF) to.size().receive_octets = ring_octets(told / 2);
  if (level == SOL_SOCKET && (name == SO_LINGER || name == SO_RCVTIMEO || name == SO_SNDTIMEO)) {
    set_option(to, level, name, value.data(), octets);
  }
  std::lock_guard lock(to.options_mutex);
  to.options[{level, name}] = value;
}

/// Of the way to the peer, which a datagram socket would go too.
int get_mtu(Socket& socket, void* value, socklen_t* octets) {
  const auto peer = socket.peer_address();
  if (!peer) return fail(ENOTCONN);
  const Judge judge(peer->ss_family, SOCK_DGRAM);
  const auto* const address = reinterpret_cast<const sockaddr*>(&*peer);
  if (kernel::connect(judge.fd(), address, octets_of(peer->ss_family)) != 0) return -1;
  return kernel::getsockopt(judge.fd(), IPPROTO_IP, IP_MTU, value, octets);
}

int set_rdma_option(Socket& socket, int name, int value) {
  const auto entries = static_cast<std::uint16_t>(std::clamp<int>(value, kEntriesMin, kEntriesMax));
  switch (name) {
    case RDMA_SQSIZE:
      socket.size().send_entries = entries;
      return 0;
    case RDMA_RQSIZE:
      socket.size().receive_entries = entries;
      return 0;
    case RDMA_INLINE:
      return 0;  // the device's own business
    case RDMA_IOMAPSIZE: {
      if (value < 0) return fail(EINVAL);
      auto set = socket.set_iomap_entries(static_cast<std::uint32_t>(value));
      return set ? 0 : fail(set.error().code);
    }
    default:
      return fail(ENOPROTOOPT);
  }
}

int get_rdma_option(Socket& socket, int name, void* value, socklen_t* octets) {
  switch (name) {
    case RDMA_SQSIZE:
      return give_value(int{socket.size().send_entries}, value, octets);
    case RDMA_RQSIZE:
      return give_value(int{socket.size().receive_entries}, value, octets);
    case RDMA_INLINE:
      return give_value(int{64}, value, octets);
    case RDMA_IOMAPSIZE:
      return give_value(static_cast<int>(socket.iomap_entries()), value, octets);
    default:
      return fail(ENOPROTOOPT);
  }
}

}  // namespace

int set_option(Socket& socket, int level, int name, const void* value, socklen_t octets) try {
  const auto given = number(value, octets);
  if (level == SOL_RDMA) {
    if (!given) return fail(EINVAL);
    return set_rdma_option(socket, name, *given);
  }
  if (level == SOL_SOCKET) {
    switch (name) {
      case SO_RCVTIMEO:
        return set_timeout(socket, true, value, octets);
      case SO_SNDTIMEO:
        return set_timeout(socket, false, value, octets);
      case SO_RCVBUF:
        // A connection keeps the rings it was made with.
        if (given) socket.size().receive_octets = ring_octets(*given);
        break;
      case SO_SNDBUF:
        if (given) socket.size().send_octets = ring_octets(*given);
        break;
      case SO_ZEROCOPY:
        return fail(EOPNOTSUPP);  // who sends so waits to be told in the error queue
      case SO_LINGER: {
        linger wanted{};
        if (value == nullptr || octets < sizeof wanted) return fail(EINVAL);
        std::memcpy(&wanted, value, sizeof wanted);
        socket.set_abortive(wanted.l_onoff != 0 && wanted.l_linger == 0);
        break;
      }
      default:
        break;
    }
  }
  if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY && given) {
    if (socket.state() != Socket::State::Fresh) return fail(EINVAL);
    socket.set_v6_only(*given != 0);
  }
  return keep(socket, level, name, value, octets);
} catch (const std::exception&) {
  return no_memory();
}

int get_option(Socket& socket, int level, int name, void* value, socklen_t* octets) try {
  if (value == nullptr || octets == nullptr) return fail(EFAULT);
  if (static_cast<int>(*octets) < 0) return fail(EINVAL);
  if (level == IPPROTO_IP && name == IP_MTU) return get_mtu(socket, value, octets);
  if (level == SOL_RDMA) return get_rdma_option(socket, name, value, octets);
  if (level == SOL_SOCKET) {
    switch (name) {
      case SO_ERROR:
        return give_value(socket.take_error(), value, octets);
      case SO_ACCEPTCONN:
        return give_value(int{socket.is_listening()}, value, octets);
      case SO_RCVTIMEO:
        return get_timeout(socket, true, value, octets);
      case SO_SNDTIMEO:
        return get_timeout(socket, false, value, octets);
      default:
        break;
    }
  }
  const int result = recall(socket, level, name, value, octets);
  if (result == 0 && level == IPPROTO_TCP && name == TCP_INFO && *octets != 0) {
    // Its first octet is the state; of the rest nothing is known.
    *static_cast<std::uint8_t*>(value) = static_cast<std::uint8_t>(socket.tcp_state());
  }
  return result;
} catch (const std::exception&) {
  return no_memory();
}

bool carry_options(int from, Socket& to) {
  const Judge fresh(to.family());
  if (!fresh.is_there()) return false;
  for (const auto& [level, name] : kCarried) {
    const Value value = value_of(from, level, name);
    if (!value.empty() && value != value_of(fresh.fd(), level, name)) carry(to, level, name, value);
  }
  const Value only = value_of(from, IPPROTO_IPV6, IPV6_V6ONLY);
  to.set_v6_only(number(only.data(), static_cast<socklen_t>(only.size())).value_or(0) != 0);
  return true;
}

}  // namespace weft::sockets

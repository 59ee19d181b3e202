// Names on UNIX sockets, and descriptors through them.
#include "front/sockets/handed.h"

#include <fcntl.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "front/sockets/addresses.h"
#include "front/sockets/calls.h"
#include "front/sockets/kernel.h"
#include "front/sockets/no_memory.h"
#include "front/sockets/rights.h"

namespace weft::sockets {
namespace {

/// The first octet of an abstract address is 0.
constexpr std::array<char, 12> kMark{'\0', 'w', 'e', 'f', 't', '-', 's', 'o', 'c', 'k', 'e', 't'};

/// An address of either family, at one size.
struct Written {
  std::uint16_t family = 0, port = 0;
  std::uint32_t scope = 0;
  std::array<std::uint8_t, 16> address{};
};

struct EndName {
  std::array<char, kMark.size()> mark = kMark;
  std::uint32_t unused = 0;
  End end;
  Written local, peer;
};
static_assert(sizeof(EndName) <= sizeof(sockaddr_un::sun_path));
constexpr socklen_t kEndNameOctets = offsetof(sockaddr_un, sun_path) + sizeof(EndName);

Written written(const sockaddr_storage& from) {
  Written to;
  to.family = from.ss_family;
  if (from.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(from);
    to.port = four.sin_port;
    std::memcpy(to.address.data(), &four.sin_addr, sizeof four.sin_addr);
  } else if (from.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(from);
    to.port = six.sin6_port;
    to.scope = six.sin6_scope_id;
    std::memcpy(to.address.data(), &six.sin6_addr, sizeof six.sin6_addr);
  }
  return to;
}

sockaddr_storage read(const Written& from) {
  sockaddr_storage to{};
  to.ss_family = from.family;
  if (from.family == AF_INET) {
    auto& four = reinterpret_cast<sockaddr_in&>(to);
    four.sin_port = from.port;
    std::memcpy(&four.sin_addr, from.address.data(), sizeof four.sin_addr);
  } else if (from.family == AF_INET6) {
    auto& six = reinterpret_cast<sockaddr_in6&>(to);
    six.sin6_port = from.port;
    six.sin6_scope_id = from.scope;
    std::memcpy(&six.sin6_addr, from.address.data(), sizeof six.sin6_addr);
  }
  return to;
}

}  // namespace

void write_names(int far, const End& end, const Names& names) {
  EndName name;
  name.end = end;
  name.local = written(names.local);
  name.peer = written(names.peer);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, &name, sizeof name);
  kernel::bind(far, reinterpret_cast<const sockaddr*>(&address), kEndNameOctets);
}

namespace {

std::optional<EndName> read_name(int near) {
  sockaddr_un address{};
  socklen_t octets = sizeof address;
  if (kernel::getpeername(near, reinterpret_cast<sockaddr*>(&address), &octets) != 0) return {};
  if (address.sun_family != AF_UNIX || octets != kEndNameOctets) return {};
  EndName name;
  std::memcpy(&name, address.sun_path, sizeof name);
  if (name.mark != kMark) return {};
  return name;
}

}  // namespace

std::optional<Names> read_names(int near) {
  const auto name = read_name(near);
  if (!name) return {};
  Names names{read(name->local), read(name->peer)};
  if (octets_of(names.local.ss_family) == 0) return {};
  return names;
}

std::optional<End> read_end(int near) {
  const auto name = read_name(near);
  if (!name) return {};
  return name->end;
}

int hand(int far, int near) {
  const Rights<1> rights({near});
  return kernel::sendmsg(far, &rights.message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 ? 0 : errno;
}

int take_handed(int listener, bool cloexec) {
  for (;;) {
    Rights<1> rights;
    const ssize_t got = kernel::recvmsg(listener, &rights.message, cloexec ? MSG_CMSG_CLOEXEC : 0);
    if (got < 0) return -1;
    if (got == 0) return errno = EINVAL, -1;  // its maker has gone
    // A descriptor that this process has no room for is dropped by the kernel.
    if ((rights.message.msg_flags & MSG_CTRUNC) != 0) return errno = EMFILE, -1;
    // An octet alone only showed that a connection waits.
    if (const int fd = rights.descriptors()[0]; fd >= 0) return fd;
  }
}

SocketPtr adopt(int fd) {
  const auto names = read_names(fd);
  if (!names) return nullptr;
  auto socket = std::make_shared<Socket>(names->local.ss_family);
  socket->settle_names(names->local, names->peer);
  return sockets().set(fd, socket) ? socket : nullptr;
}

int accept_handed(int listener, sockaddr* address, socklen_t* octets, int flags) try {
  if ((flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) != 0) return errno = EINVAL, -1;
  const int fd = take_handed(listener, (flags & SOCK_CLOEXEC) != 0);
  if (fd < 0) return -1;
  forget(fd);
  if ((flags & SOCK_NONBLOCK) != 0) kernel::fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
  const SocketPtr socket = adopt(fd);
  if (address != nullptr && octets != nullptr) {
    const int code =
        give(socket != nullptr ? socket->settled_name(true) : sockaddr_storage{}, address, octets);
    if (code != 0) {
      forget(fd);
      kernel::close(fd);
      return errno = code, -1;
    }
  }
  return fd;
} catch (const std::exception&) {
  return no_memory();
}

}  // namespace weft::sockets

// Which descriptors are the preload's business; for its sources alone.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>

#include "front/sockets/addresses.h"
#include "front/sockets/calls.h"

namespace weft::sockets {

/// The socket of a descriptor, if it is this process's own. For calls that use no connection.
inline SocketPtr own(int fd) {
  SocketPtr socket = sockets().find(fd);
  if (socket != nullptr && socket->made_in != fork_generation()) return nullptr;
  return socket;
}
/// The same for those that do: a connection of another process's may be used when it returns, as
/// any descriptor.
inline SocketPtr find(int fd) {
  SocketPtr socket = sockets().find(fd);
  if (socket == nullptr || socket->made_in == fork_generation()) return socket;
  socket->begin_use(fd);
  return nullptr;
}
inline bool is_ours(int fd) {
  return sockets().has(fd) && find(fd) != nullptr;
}

/// A socket of another process's, whose descriptor is here a channel to that process.
inline SocketPtr inherited(int fd) {
  SocketPtr socket = sockets().find(fd);
  if (socket != nullptr && socket->made_in == fork_generation()) return nullptr;
  return socket;
}

/// Looks for errors of a connection that another process carries: there are none, and a UNIX socket
/// would give octets.
inline bool looks_for_errors(int fd, int flags) {
  return (flags & MSG_ERRQUEUE) != 0 && inherited(fd) != nullptr;
}

inline int fail(int code) {
  errno = code;
  return -1;
}

/// Whether a message to another process holds descriptors of sockets of ours (SCM_RIGHTS).
inline bool passes_ours(const msghdr* message) {
  if (message == nullptr || message->msg_control == nullptr) return false;
  if (message->msg_controllen < sizeof(cmsghdr)) return false;
  auto* control = const_cast<msghdr*>(message);
  for (cmsghdr* header = CMSG_FIRSTHDR(control); header != nullptr;
       header = CMSG_NXTHDR(control, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= header->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, reinterpret_cast<const char*>(header) + at, sizeof fd);
      if (is_ours(fd)) return true;
    }
  }
  return false;
}

/// What a program that writes where nobody reads gets besides its errno.
inline ssize_t with_signal(ssize_t sent, int flags) {
  if (sent < 0 && errno == EPIPE && (flags & MSG_NOSIGNAL) == 0) {
    ::raise(SIGPIPE);
    errno = EPIPE;
  }
  return sent;
}

/// What the kernel takes for a vector of octets.
inline bool is_vector(const iovec* vector, int count) {
  if (count < 0 || count > IOV_MAX) return false;
  return std::all_of(vector, vector + count,
                     [](const iovec& part) { return part.iov_len <= SSIZE_MAX; });
}

/// readv and writev, with flags of recv and send.
inline ssize_t receive_vector(Socket& socket, const iovec* vector, int count, int flags) {
  if (!is_vector(vector, count)) return fail(EINVAL);
  return receive(socket, vector, static_cast<std::size_t>(count), flags);
}
inline ssize_t send_vector(Socket& socket, const iovec* vector, int count, int flags) {
  if (!is_vector(vector, count)) return fail(EINVAL);
  // Which the kernel asks no socket about, unlike a write of nothing.
  if (std::none_of(vector, vector + count, [](const iovec& part) { return part.iov_len != 0; })) {
    return 0;
  }
  return with_signal(send(socket, vector, static_cast<std::size_t>(count), flags), flags);
}

inline ssize_t send_octets(Socket& socket, const void* from, std::size_t octets, int flags) {
  const iovec part{const_cast<void*>(from), octets};
  return with_signal(send(socket, &part, 1, flags), flags);
}

inline ssize_t receive_octets(Socket& socket, void* to, std::size_t octets, int flags) {
  const iovec part{to, octets};
  return receive(socket, &part, 1, flags);
}

}  // namespace weft::sockets

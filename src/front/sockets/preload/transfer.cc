// Octets between a stream and a file or a pipe, and many messages in one call.
//
// A stream's octets have to be in its rings, so what the kernel moves by pages is copied here.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include "front/libibverbs/export.h"
#include "front/sockets/kernel.h"
#include "front/sockets/preload/libc.h"
#include "front/sockets/preload/own.h"

namespace {

namespace weft_sockets = weft::sockets;
namespace kernel = weft::sockets::kernel;
namespace libc = weft::sockets::libc;
using weft_sockets::fail;
using weft_sockets::find;
using weft_sockets::SocketPtr;

using Piece = std::array<char, 64 * 1024>;

/// What a read from a file at `offset`, or from where it stands, gives.
ssize_t read_file(int from, const off_t* offset, void* to, std::size_t octets) {
  if (offset != nullptr) return ::pread(from, to, octets, *offset);
  const off_t at = ::lseek(from, 0, SEEK_CUR);
  return at < 0 ? -1 : ::pread(from, to, octets, at);
}

/// The file's place moves by what was sent, not by what was read.
ssize_t send_file(weft_sockets::Socket& socket, int from, off_t* offset, std::size_t octets) {
  Piece piece;
  std::size_t sent = 0;
  while (sent < octets) {
    const ssize_t got =
        read_file(from, offset, piece.data(), std::min(piece.size(), octets - sent));
    if (got < 0 && sent == 0) return errno == ESPIPE ? fail(EINVAL) : -1;
    if (got <= 0) break;
    const ssize_t part =
        weft_sockets::send_octets(socket, piece.data(), static_cast<std::size_t>(got), 0);
    if (part < 0 && sent == 0) return -1;
    if (part <= 0) break;
    sent += static_cast<std::size_t>(part);
    if (offset != nullptr) {
      *offset += part;
    } else {
      ::lseek(from, part, SEEK_CUR);
    }
    if (part < got) break;
  }
  return static_cast<ssize_t>(sent);
}

bool is_pipe(int fd) {
  struct stat status;
  return ::fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode);
}

/// How many octets a pipe takes at once. 0: none. A page of it that is begun may hold no more, so
/// only whole pages count.
std::size_t pipe_room(int pipe) {
  int held = 0;
  const int size = ::fcntl(pipe, F_GETPIPE_SZ);
  if (size < 0 || ::ioctl(pipe, FIONREAD, &held) != 0) return 0;
  constexpr int kPage = 4096;
  const int pages = (held + kPage - 1) / kPage + (held != 0 ? 1 : 0);
  return static_cast<std::size_t>(std::max(size - pages * kPage, 0));
}

/// Waits until the pipe has the events; false: told not to, or interrupted (errno).
bool wait_for_pipe(int pipe, short events, unsigned flags) {
  pollfd one{pipe, events, 0};
  const timespec none{};
  const bool waits =
      (flags & SPLICE_F_NONBLOCK) == 0 && (kernel::fcntl(pipe, F_GETFL) & O_NONBLOCK) == 0;
  const int ready = kernel::ppoll(&one, 1, waits ? nullptr : &none);
  if (ready == 0) errno = EAGAIN;
  return ready > 0;
}

/// Takes only what the pipe has room for: nothing can be put back into a stream.
ssize_t from_stream(weft_sockets::Socket& socket, int pipe, std::size_t octets, unsigned flags) {
  Piece piece;
  if (!wait_for_pipe(pipe, POLLOUT, flags)) return -1;
  const std::size_t room = std::min({piece.size(), octets, pipe_room(pipe)});
  if (room == 0) return fail(EAGAIN);
  // SPLICE_F_NONBLOCK is about the pipe.
  const ssize_t got = weft_sockets::receive_octets(socket, piece.data(), room, 0);
  if (got <= 0) return got;
  // Another writer may have filled it meanwhile; then this one waits, since the octets are out.
  for (ssize_t put = 0; put < got;) {
    const ssize_t part =
        kernel::write(pipe, piece.data() + put, static_cast<std::size_t>(got - put));
    if (part > 0) {
      put += part;
    } else if (errno == EAGAIN) {
      pollfd one{pipe, POLLOUT, 0};
      kernel::ppoll(&one, 1, nullptr);
    } else if (errno != EINTR) {
      return put != 0 ? put : -1;
    }
  }
  return got;
}

/// Takes from the pipe what the stream took. A pipe cannot be peeked at, so its octets are read in
/// pieces that the stream has room for at once, and what it refuses all the same it gets in time.
ssize_t to_stream(int pipe, weft_sockets::Socket& socket, std::size_t octets, unsigned flags) {
  Piece piece;
  if (!wait_for_pipe(pipe, POLLIN, flags)) return -1;
  const bool waits = !socket.nonblocking;
  if (!waits && (socket.poll_events(POLLOUT) & POLLOUT) == 0) return fail(EAGAIN);
  // So much a stream takes that says it is writable.
  const std::size_t most = waits ? piece.size() : std::size_t{weft_sockets::Stream::kSendRoomMin};
  const ssize_t got = kernel::read(pipe, piece.data(), std::min(most, octets));
  if (got <= 0) return got;
  const iovec part{piece.data(), static_cast<std::size_t>(got)};
  return weft_sockets::with_signal(weft_sockets::send_waiting(socket, &part, 1, 0), 0);
}

/// Of preadv2 and pwritev2, as recv and send have it.
int waiting_flag(int flags) {
  return (flags & RWF_NOWAIT) != 0 ? MSG_DONTWAIT : 0;
}

}  // namespace

WEFT_EXPORT ssize_t sendfile(int to, int from, off_t* offset, size_t octets) noexcept {
  const SocketPtr socket = find(to);
  if (socket == nullptr) return libc::sendfile(to, from, offset, octets);
  return send_file(*socket, from, offset, octets);
}
extern "C" __attribute__((visibility("default"), alias("sendfile"))) ssize_t sendfile64(
    int, int, off64_t*, size_t) noexcept;

WEFT_EXPORT ssize_t splice(int from, off64_t* from_offset, int to, off64_t* to_offset,
                           size_t octets, unsigned flags) {
  const SocketPtr source = find(from), target = find(to);
  if (source == nullptr && target == nullptr) {
    return libc::splice(from, from_offset, to, to_offset, octets, flags);
  }
  // A place in a pipe is no place at all; one in a socket the kernel calls invalid.
  const off64_t* const in_pipe = source != nullptr ? to_offset : from_offset;
  const off64_t* const in_stream = source != nullptr ? from_offset : to_offset;
  if (source != nullptr && target != nullptr) return fail(EINVAL);
  const int pipe = source != nullptr ? to : from;
  if (kernel::fcntl(pipe, F_GETFD) < 0) return fail(EBADF);
  if (!is_pipe(pipe)) return fail(EINVAL);
  if (in_pipe != nullptr) return fail(ESPIPE);
  if (in_stream != nullptr) return fail(EINVAL);
  if (octets == 0) return 0;
  return source != nullptr ? from_stream(*source, pipe, octets, flags)
                           : to_stream(pipe, *target, octets, flags);
}

WEFT_EXPORT int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  const SocketPtr socket = find(fd);
  if (socket == nullptr) {
    for (unsigned i = 0; i < count; ++i) {
      if (weft_sockets::passes_ours(&messages[i].msg_hdr)) return fail(EINVAL);
    }
    return libc::sendmmsg(fd, messages, count, flags);
  }
  for (unsigned i = 0; i < count; ++i) {
    const ssize_t sent = weft_sockets::with_signal(
        weft_sockets::send_message(*socket, &messages[i].msg_hdr, flags), flags);
    if (sent < 0) return i != 0 ? static_cast<int>(i) : -1;
    messages[i].msg_len = static_cast<unsigned>(sent);
  }
  return static_cast<int>(count);
}

/// As the kernel has it, `limit` is looked at between messages only.
WEFT_EXPORT int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* limit) {
  const SocketPtr socket = find(fd);
  if (weft_sockets::looks_for_errors(fd, flags)) return fail(EAGAIN);
  if (socket == nullptr) return libc::recvmmsg(fd, messages, count, flags, limit);
  if (limit != nullptr && !weft_sockets::is_time(*limit)) return fail(EINVAL);
  const weft_sockets::Deadline last = weft_sockets::deadline_after(limit);
  int how = flags & ~MSG_WAITFORONE;
  for (unsigned i = 0; i < count; ++i) {
    const ssize_t got = weft_sockets::receive_message(*socket, &messages[i].msg_hdr, how);
    if (got < 0) return i != 0 ? static_cast<int>(i) : -1;
    messages[i].msg_len = static_cast<unsigned>(got);
    if ((flags & MSG_WAITFORONE) != 0) how |= MSG_DONTWAIT;
    if (last && weft_sockets::Clock::now() >= *last) return static_cast<int>(i + 1);
  }
  return static_cast<int>(count);
}

WEFT_EXPORT ssize_t preadv2(int fd, const iovec* vector, int count, off_t offset, int flags) {
  const SocketPtr socket = offset == -1 ? find(fd) : nullptr;
  if (socket == nullptr) return libc::preadv2(fd, vector, count, offset, flags);
  return weft_sockets::receive_vector(*socket, vector, count, waiting_flag(flags));
}
WEFT_EXPORT ssize_t pwritev2(int fd, const iovec* vector, int count, off_t offset, int flags) {
  const SocketPtr socket = offset == -1 ? find(fd) : nullptr;
  if (socket == nullptr) return libc::pwritev2(fd, vector, count, offset, flags);
  return weft_sockets::send_vector(*socket, vector, count, waiting_flag(flags));
}
extern "C" {
__attribute__((visibility("default"), alias("preadv2"))) ssize_t preadv64v2(int, const iovec*, int,
                                                                            off64_t, int);
__attribute__((visibility("default"), alias("pwritev2"))) ssize_t pwritev64v2(int, const iovec*,
                                                                              int, off64_t, int);
}

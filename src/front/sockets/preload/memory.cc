// The calls of <weft/sockets.h>: arguments, errno, and which socket a descriptor is.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <weft/sockets.h>

#include "front/libibverbs/export.h"
#include "front/sockets/addresses.h"
#include "front/sockets/calls.h"
#include "front/sockets/kernel.h"
#include "front/sockets/no_memory.h"
#include "front/sockets/preload/candidate.h"
#include "front/sockets/preload/operations_option.h"
#include "front/sockets/remote_key.h"
#include "front/sockets/socket_memory.h"

namespace weft::sockets {
namespace {

int fail(int code) {
  errno = code;
  return -1;
}
template <typename T>
int fail(const Result<T>& result) {
  return fail(result.error().code);
}
int answer(const Result<void>& result) {
  return result ? 0 : fail(result);
}

/// Why a descriptor has no registered memory.
int why_not(int fd) {
  if (kernel::fcntl(fd, F_GETFD) < 0) return EBADF;
  int type = 0;
  socklen_t octets = sizeof type;
  if (kernel::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &octets) != 0) return ENOTSOCK;
  // Not TCP yet, if it is still to be switched.
  if (const auto candidate = candidates().find(fd); candidate != nullptr) {
    std::lock_guard lock(switching);
    const bool wants = candidate->mode && *candidate->mode != IWARP_MODE_OFF;
    sockaddr_storage peer{};
    octets = sizeof peer;
    const bool connected = syscall(SYS_getpeername, fd, &peer, &octets) == 0;
    if (wants && !connected) return ENOTCONN;
  }
  return EOPNOTSUPP;
}

/// The socket that a thread used last. Posting is a matter of some hundred nanoseconds, and
/// programs post many times on one socket.
struct Last {
  const FdTable<Socket>& table = sockets();
  int fd = -1;
  std::uint64_t generation = 0;
  SocketPtr socket;
};
// A pointer: global objects of a program may call when the main thread's own are destroyed.
[[gnu::tls_model("initial-exec")]] constinit thread_local Last* last = nullptr;
struct AtThreadEnd {
  ~AtThreadEnd() { delete std::exchange(last, nullptr); }
};
thread_local AtThreadEnd at_thread_end;

/// The socket of a descriptor, which is not the one used last; null, and errno.
[[gnu::noinline]] Socket* find_another(int fd) {
  if (last == nullptr) {
    last = new Last;
    static_cast<void>(at_thread_end);  // is made when it is first named
  }
  last->generation = last->table.generation();
  last->socket = sockets().find(fd);
  last->fd = fd;
  if (last->socket == nullptr) return errno = why_not(fd), nullptr;
  if (last->socket->made_in != fork_generation()) return errno = EOPNOTSUPP, nullptr;
  return last->socket.get();
}

/// The socket of a descriptor; null, and errno.
Socket* find(int fd) {
  const Last* same = last;
  if (same != nullptr && same->fd == fd && same->generation == same->table.generation() &&
      same->socket != nullptr && same->socket->made_in == fork_generation()) [[likely]] {
    return same->socket.get();
  }
  return find_another(fd);
}

ssize_t transfer(int fd, bool reads, const iovec* local, int count, const iwarp_remote* remote,
                 std::uint64_t offset) try {
  Socket* socket = find(fd);
  if (socket == nullptr) return -1;
  if (remote == nullptr || count < 0) return fail(EINVAL);
  if (local == nullptr && count != 0) return fail(EFAULT);
  const SocketPtr held = socket->shared_from_this();
  const auto moved = SocketMemory::transfer(
      *socket, reads, {local, static_cast<std::size_t>(count)},
      {remote->address, remote->octets, remote->key, remote->rights}, offset);
  return moved ? static_cast<ssize_t>(*moved) : fail(moved);
} catch (const std::exception&) {
  return no_memory();
}

int post(int fd, bool reads, const iovec* local, int count, const iwarp_remote* remote,
         std::uint64_t offset, std::uint64_t context) try {
  Socket* socket = find(fd);
  if (socket == nullptr) return -1;
  if (remote == nullptr || count < 0) return fail(EINVAL);
  if (local == nullptr && count != 0) return fail(EFAULT);
  const int code = SocketMemory::post_transfer(
      *socket, reads, {local, static_cast<std::size_t>(count)},
      {remote->address, remote->octets, remote->key, remote->rights}, offset, context);
  return code == 0 ? 0 : fail(code);
} catch (const std::exception&) {
  return no_memory();
}

int take(int fd, iwarp_completion* completions, int count, int wait_ms) try {
  Socket* socket = find(fd);
  if (socket == nullptr) return -1;
  if (count < 1) return fail(EINVAL);
  if (completions == nullptr) return fail(EFAULT);
  const SocketPtr held = wait_ms == 0 ? nullptr : socket->shared_from_this();
  const auto taken =
      SocketMemory::collect(*socket, {completions, static_cast<std::size_t>(count)}, wait_ms);
  return taken ? *taken : fail(taken);
} catch (const std::exception&) {
  return no_memory();
}

}  // namespace

int set_operations(int fd, const void* value, socklen_t octets) try {
  int wanted = 0;
  if (value == nullptr || octets < sizeof wanted) return fail(EINVAL);
  std::memcpy(&wanted, value, sizeof wanted);
  if (wanted < 1 || wanted > IWARP_OPERATIONS_MAX) return fail(EINVAL);
  if (sockets().has(fd)) return fail(EISCONN);
  int type = 0;
  socklen_t size = sizeof type;
  if (kernel::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0) return -1;
  int family = 0;
  size = sizeof family;
  kernel::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
  if (type != SOCK_STREAM || octets_of(family) == 0) return fail(EOPNOTSUPP);
  if (!candidates().has(fd) && !consider(fd)) return no_memory();
  const auto candidate = candidates().find(fd);
  if (candidate == nullptr) return fail(ENOMEM);
  std::lock_guard lock(switching);
  candidate->operations = static_cast<std::uint16_t>(wanted);
  return 0;
} catch (const std::exception&) {
  return no_memory();
}

int get_operations(int fd, void* value, socklen_t* octets) {
  int operations = IWARP_OPERATIONS_DEFAULT;
  if (value == nullptr || octets == nullptr || *octets < sizeof operations) return fail(EINVAL);
  if (const SocketPtr socket = sockets().find(fd); socket != nullptr) {
    operations = socket->size().operations;
  } else if (const auto candidate = candidates().find(fd); candidate != nullptr) {
    std::lock_guard lock(switching);
    operations = candidate->operations;
  } else if (kernel::fcntl(fd, F_GETFD) < 0) {
    return -1;
  }
  std::memcpy(value, &operations, sizeof operations);
  *octets = sizeof operations;
  return 0;
}

}  // namespace weft::sockets

using namespace weft::sockets;

// Memory.
WEFT_EXPORT int iwarp_register(int fd, void* memory, size_t octets, int rights) try {
  Socket* socket = find(fd);
  if (socket == nullptr) return -1;
  const auto number = SocketMemory::add_region(*socket, memory, octets, rights);
  return number ? *number : fail(number);
} catch (const std::exception&) {
  return no_memory();
}

WEFT_EXPORT int iwarp_deregister(int fd, int region) try {
  Socket* socket = find(fd);
  if (socket == nullptr) return -1;
  const SocketPtr held = socket->shared_from_this();
  return answer(SocketMemory::remove_region(*socket, region));
} catch (const std::exception&) {
  return no_memory();
}

WEFT_EXPORT int iwarp_export(int fd, int region, iwarp_key* key) try {
  Socket* socket = find(fd);
  if (socket == nullptr) return -1;
  if (key == nullptr) return fail(EFAULT);
  const auto memory = SocketMemory::describe(*socket, region);
  if (!memory) return fail(memory);
  const auto octets = encode_key(*memory);
  std::copy(octets.begin(), octets.end(), key->octets);
  return 0;
} catch (const std::exception&) {
  return no_memory();
}

WEFT_EXPORT int iwarp_import(const iwarp_key* key, iwarp_remote* remote) {
  if (key == nullptr || remote == nullptr) return fail(EFAULT);
  const auto memory = parse_key({key->octets, kKeyOctets});
  if (!memory) return fail(memory);
  *remote = {memory->address, memory->octets, memory->key, memory->rights};
  return 0;
}

WEFT_EXPORT void iwarp_key_to_text(const iwarp_key* key, char* text) {
  key_to_text({key->octets, kKeyOctets}, text);
}

WEFT_EXPORT int iwarp_key_from_text(const char* text, iwarp_key* key) try {
  if (text == nullptr || key == nullptr) return fail(EFAULT);
  const auto octets = key_from_text(text);
  if (!octets) return fail(octets);
  if (const auto memory = parse_key(*octets); !memory) return fail(memory);
  std::copy(octets->begin(), octets->end(), key->octets);
  return 0;
} catch (const std::exception&) {
  return no_memory();
}

// Reads and writes.
WEFT_EXPORT ssize_t iwarp_writev(int fd, const iovec* from, int count, const iwarp_remote* to,
                                 std::uint64_t offset) {
  return transfer(fd, false, from, count, to, offset);
}

WEFT_EXPORT ssize_t iwarp_readv(int fd, const iovec* to, int count, const iwarp_remote* from,
                                std::uint64_t offset) {
  return transfer(fd, true, to, count, from, offset);
}

WEFT_EXPORT ssize_t iwarp_write(int fd, const void* from, size_t octets, const iwarp_remote* to,
                                std::uint64_t offset) {
  const iovec part{const_cast<void*>(from), octets};
  return transfer(fd, false, &part, 1, to, offset);
}

WEFT_EXPORT ssize_t iwarp_read(int fd, void* to, size_t octets, const iwarp_remote* from,
                               std::uint64_t offset) {
  const iovec part{to, octets};
  return transfer(fd, true, &part, 1, from, offset);
}

WEFT_EXPORT int iwarp_post_writev(int fd, const iovec* from, int count, const iwarp_remote* to,
                                  std::uint64_t offset, std::uint64_t context) {
  return post(fd, false, from, count, to, offset, context);
}

WEFT_EXPORT int iwarp_post_readv(int fd, const iovec* to, int count, const iwarp_remote* from,
                                 std::uint64_t offset, std::uint64_t context) {
  return post(fd, true, to, count, from, offset, context);
}

WEFT_EXPORT int iwarp_post_write(int fd, const void* from, size_t octets, const iwarp_remote* to,
                                 std::uint64_t offset, std::uint64_t context) {
  const iovec part{const_cast<void*>(from), octets};
  return post(fd, false, &part, 1, to, offset, context);
}

WEFT_EXPORT int iwarp_post_read(int fd, void* to, size_t octets, const iwarp_remote* from,
                                std::uint64_t offset, std::uint64_t context) {
  const iovec part{to, octets};
  return post(fd, true, &part, 1, from, offset, context);
}

// The stream.
WEFT_EXPORT int iwarp_post_sendv(int fd, const iovec* from, int count, std::uint64_t context) try {
  Socket* socket = find(fd);
  if (socket == nullptr) return -1;
  if (count < 0) return fail(EINVAL);
  if (from == nullptr && count != 0) return fail(EFAULT);
  return answer(SocketMemory::post_send(*socket, {from, static_cast<std::size_t>(count)}, context));
} catch (const std::exception&) {
  return no_memory();
}

WEFT_EXPORT int iwarp_post_send(int fd, const void* from, size_t octets, std::uint64_t context) {
  const iovec part{const_cast<void*>(from), octets};
  return iwarp_post_sendv(fd, &part, 1, context);
}

WEFT_EXPORT int iwarp_post_recv(int fd, void* to, size_t octets, int flags,
                                std::uint64_t context) try {
  Socket* socket = find(fd);
  if (socket == nullptr) return -1;
  if ((flags & ~MSG_WAITALL) != 0) return fail(EINVAL);
  if (to == nullptr && octets != 0) return fail(EFAULT);
  return answer(SocketMemory::post_receive(*socket, {to, octets}, flags != 0, context));
} catch (const std::exception&) {
  return no_memory();
}

// Completions.
WEFT_EXPORT int iwarp_poll(int fd, iwarp_completion* completions, int count) {
  return take(fd, completions, count, 0);
}

WEFT_EXPORT int iwarp_wait(int fd, iwarp_completion* completions, int count, int timeout_ms) {
  return take(fd, completions, count, timeout_ms);
}

WEFT_EXPORT int iwarp_completion_fd(int fd) try {
  Socket* socket = find(fd);
  if (socket == nullptr) return -1;
  const auto made = SocketMemory::completion_fd(*socket);
  return made ? *made : fail(made);
} catch (const std::exception&) {
  return no_memory();
}

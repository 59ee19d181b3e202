// errno and descriptor numbers.
#include "front/sockets/calls.h"

#include <netinet/in.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>
#include <new>
#include <vector>

#include "front/sockets/addresses.h"
#include "front/sockets/handed.h"
#include "front/sockets/kernel.h"
#include "front/sockets/mutex.h"
#include "front/sockets/no_memory.h"
#include "front/sockets/service.h"

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

bool is_blocking(const Socket& socket, int flags) {
  return !socket.nonblocking.load(std::memory_order_relaxed) && (flags & MSG_DONTWAIT) == 0;
}

/// A socket of the parent process, which its child can only close. One that is shared became so
/// when the call was on its way here, and says so itself.
bool is_disowned(const Socket& socket) {
  return socket.made_in != fork_generation() && !socket.is_shared();
}

std::size_t octets_in(const iovec* vector, std::size_t count) {
  return Cursor({vector, count}).left();
}

/// Another process came to use the connection while a call was under way: what that has not done of
/// its vector yet it does at the descriptor.
template <typename Call>
ssize_t go_on(Socket& socket, const iovec* vector, std::size_t count, std::size_t done, Call call) {
  std::vector<iovec> rest;
  std::size_t skipped = done;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t part = std::min(skipped, vector[i].iov_len);
    skipped -= part;
    if (part == vector[i].iov_len) continue;
    rest.push_back({static_cast<char*>(vector[i].iov_base) + part, vector[i].iov_len - part});
  }
  msghdr message{};
  message.msg_iov = rest.data();
  message.msg_iovlen = rest.size();
  const ssize_t more = call(socket.any_number(), &message);
  if (more < 0) return done != 0 ? static_cast<ssize_t>(done) : -1;
  return static_cast<ssize_t>(done) + more;
}

/// What a connection has from its listener.
void inherit_options(Socket& listener, Socket& connection) {
  connection.set_timeouts(true, listener.timeout(true));
  connection.set_timeouts(false, listener.timeout(false));
  connection.set_abortive(listener.is_abortive());
  std::scoped_lock lock(listener.options_mutex, connection.options_mutex);
  connection.options = listener.options;
  connection.options.erase({SOL_SOCKET, SO_PRIORITY});  // the kernel gives this one to none
}

}  // namespace

FdTable<Socket>& sockets() {
  static auto* table = [] {
    // A child's table is of a moment when nobody was in it.
    pthread_atfork([] { sockets().lock_all(); }, [] { sockets().unlock_all(); },
                   [] { sockets().unlock_all(); });
    return new FdTable<Socket>;
  }();
  return *table;
}

// Made with the library: a child forked in the midst of a first call would wait for its end.
namespace {
[[maybe_unused]] const auto& made_early = sockets();

/// Behind all that the program does at its end.
struct AtExit {
  ~AtExit() { leave(); }
};
const AtExit at_exit;
}  // namespace

namespace {
constexpr auto kExitPatience = std::chrono::seconds(10);
}  // namespace

void leave_at_once() {
  // A handler in the midst of a call: what that has nobody gives back, so all ends as it stands.
  if (mutexes_held != 0) return;
  Service* service = Service::existing();
  if (service != nullptr) service->leave(kExitPatience);
}

void leave() {
  if (mutexes_held != 0) return;
  Service* service = Service::existing();
  if (service == nullptr) return;
  end_jumped_sleep();
  sockets().for_each([](int fd, const SocketPtr& socket) { close(fd, socket, false); });
  service->drain(kExitPatience);
}

void forget(int fd) {
  const SocketPtr socket = sockets().take(fd);
  if (socket == nullptr || is_disowned(*socket)) return;
  const bool mine = socket->made_in == fork_generation();
  if (socket->remove_number(fd) && mine) attempt([&] { socket->close(false); });
}

int enter(const SocketPtr& socket, int flags) try {
  const auto made = socket->open_descriptor(flags);
  if (!made) return fail(made);
  const int number = *made;
  forget(number);
  socket->add_number(number);
  if (!sockets().set(number, socket)) {
    socket->remove_number(number);
    kernel::close(number);
    return fail(EMFILE);
  }
  return number;
} catch (const std::exception&) {
  return no_memory();
}

int new_socket(int domain, int type, int protocol) try {
  const int flags = type & (SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (domain != AF_INET && domain != AF_INET6) return fail(EAFNOSUPPORT);
  // Datagrams need a QP type that iWARP does not have.
  if ((type & ~flags) != SOCK_STREAM) return fail(EOPNOTSUPP);
  if (protocol != 0 && protocol != IPPROTO_TCP) return fail(EPROTONOSUPPORT);
  if (auto service = Service::get(); !service) return fail(service);
  return enter(std::make_shared<Socket>(domain), flags);
} catch (const std::exception&) {
  return no_memory();
}

int bind(Socket& socket, const sockaddr* address, socklen_t octets) try {
  if (is_disowned(socket)) return fail(EBADF);
  if (address == nullptr) return fail(EFAULT);
  if (octets < octets_of(address->sa_family)) return fail(EINVAL);
  auto bound = socket.bind(*address);
  return bound ? 0 : fail(bound);
} catch (const std::exception&) {
  return no_memory();
}

int listen(Socket& socket, int backlog) try {
  if (is_disowned(socket)) return fail(EBADF);
  auto listening = socket.listen(backlog);
  return listening ? 0 : fail(listening);
} catch (const std::exception&) {
  return no_memory();
}

int accept(Socket& socket, sockaddr* address, socklen_t* octets, int flags) try {
  if (is_disowned(socket)) return fail(EBADF);
  if ((flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) != 0) return fail(EINVAL);
  if (address != nullptr && octets == nullptr) return fail(EFAULT);
  auto connection = socket.accept(is_blocking(socket, 0));
  if (!connection && connection.error().code == ESTALE) {
    return accept_handed(socket.any_number(), address, octets, flags);
  }
  if (!connection) return fail(connection);
  if (!attempt([&] { inherit_options(socket, **connection); })) {
    socket.put_back(std::move(*connection));
    return no_memory();
  }
  const int unnamed =
      address != nullptr ? give((*connection)->settled_name(true), address, octets) : 0;
  if (unnamed != 0) {
    (*connection)->close(false);  // as the kernel, which has taken it out of the queue
    return fail(unnamed);
  }
  const int fd = enter(*connection, flags);
  if (fd < 0) {
    const int code = errno;
    socket.put_back(std::move(*connection));
    return fail(code);
  }
  return fd;
} catch (const std::exception&) {
  return no_memory();
}

int connect(Socket& socket, const sockaddr* address, socklen_t octets) try {
  if (is_disowned(socket)) return fail(EBADF);
  if (address == nullptr) return fail(EFAULT);
  if (octets < octets_of(address->sa_family)) return fail(EINVAL);
  auto connected = socket.connect(*address, is_blocking(socket, 0));
  return connected ? 0 : fail(connected);
} catch (const std::exception&) {
  return no_memory();
}

namespace {

ssize_t send(Socket& socket, const iovec* vector, std::size_t count, int flags, bool blocking) try {
  if (is_disowned(socket)) return fail(EBADF);
  if ((flags & MSG_OOB) != 0) return fail(EOPNOTSUPP);
  auto sent = socket.send(Cursor({vector, count}), flags, blocking);
  const bool begun = sent && blocking && socket.is_shared() && *sent < octets_in(vector, count);
  if (begun || (!sent && sent.error().code == ESTALE)) {
    return go_on(socket, vector, count, sent ? *sent : 0, [&](int fd, const msghdr* rest) {
      return kernel::sendmsg(fd, rest, flags | MSG_NOSIGNAL);
    });
  }
  if (sent) return static_cast<ssize_t>(*sent);
  return fail(sent);
} catch (const std::exception&) {
  return no_memory();
}

}  // namespace

ssize_t send(Socket& socket, const iovec* vector, std::size_t count, int flags) {
  return send(socket, vector, count, flags, is_blocking(socket, flags));
}

ssize_t send_waiting(Socket& socket, const iovec* vector, std::size_t count, int flags) {
  return send(socket, vector, count, flags, true);
}

namespace {

/// As TCP does it by MSG_TRUNC: what would be received goes nowhere, and the vector stays as it is.
ssize_t discard(Socket& socket, std::size_t octets, int flags) {
  constexpr std::size_t kPart = 64 * 1024, kPiece = 1024 * 1024;
  std::vector<char> nowhere(kPart);
  const std::vector<iovec> parts(kPiece / kPart, iovec{nowhere.data(), kPart});
  const bool peeks = (flags & MSG_PEEK) != 0;
  std::size_t done = 0;
  while (done < octets) {
    iovec last{nowhere.data(), std::min(octets - done, kPart)};
    const bool whole = octets - done >= kPiece;
    const std::size_t piece = whole ? kPiece : last.iov_len;
    // Who does not wait for all waits for something only.
    const int how = done == 0 || (flags & MSG_WAITALL) != 0 ? flags : flags | MSG_DONTWAIT;
    const ssize_t part = whole ? receive(socket, parts.data(), parts.size(), how)
                               : receive(socket, &last, 1, how);
    if (part <= 0) return done != 0 ? static_cast<ssize_t>(done) : part;
    done += static_cast<std::size_t>(part);
    if (peeks || static_cast<std::size_t>(part) < piece) break;
  }
  return static_cast<ssize_t>(done);
}

}  // namespace

ssize_t receive(Socket& socket, const iovec* vector, std::size_t count, int flags) try {
  if ((flags & MSG_TRUNC) != 0) {
    return discard(socket, octets_in(vector, count), flags & ~MSG_TRUNC);
  }
  if (is_disowned(socket)) return fail(EBADF);
  if ((flags & MSG_ERRQUEUE) != 0) return fail(EAGAIN);  // it is always empty
  if ((flags & MSG_OOB) != 0) return fail(EINVAL);
  const bool blocking = is_blocking(socket, flags);
  auto received = socket.receive(Cursor({vector, count}), flags, blocking);
  const bool begun = received && blocking && (flags & MSG_WAITALL) != 0 &&
                     (flags & MSG_PEEK) == 0 && socket.is_shared() &&
                     *received < octets_in(vector, count);
  if (begun || (!received && received.error().code == ESTALE)) {
    return go_on(socket, vector, count, received ? *received : 0,
                 [&](int fd, msghdr* rest) { return kernel::recvmsg(fd, rest, flags); });
  }
  if (received) return static_cast<ssize_t>(*received);
  return fail(received);
} catch (const std::exception&) {
  return no_memory();
}

ssize_t receive_message(Socket& socket, msghdr* message, int flags) {
  if (message == nullptr) return fail(EFAULT);
  if (message->msg_iovlen > IOV_MAX) return fail(EMSGSIZE);
  const ssize_t received = receive(socket, message->msg_iov, message->msg_iovlen, flags);
  if (received < 0) return received;
  message->msg_namelen = 0;
  message->msg_controllen = 0;
  message->msg_flags = 0;
  return received;
}

ssize_t send_message(Socket& socket, const msghdr* message, int flags) {
  if (message == nullptr) return fail(EFAULT);
  if (message->msg_iovlen > IOV_MAX) return fail(EMSGSIZE);
  if (message->msg_control != nullptr && message->msg_controllen >= sizeof(cmsghdr)) {
    const cmsghdr* first = CMSG_FIRSTHDR(message);
    if (first->cmsg_level == SOL_SOCKET && first->cmsg_type == SCM_RIGHTS) return fail(EINVAL);
  }
  return send(socket, message->msg_iov, message->msg_iovlen, flags);
}

int shutdown(Socket& socket, int how) try {
  if (is_disowned(socket)) return fail(EBADF);
  auto done = socket.shutdown(how);
  if (!done && done.error().code == ESTALE) return kernel::shutdown(socket.any_number(), how);
  return done ? 0 : fail(done);
} catch (const std::exception&) {
  return no_memory();
}

int close(int fd, const SocketPtr& socket, bool linger) try {
  // In this order: the number may be given out again as soon as the kernel has it back.
  sockets().take(fd);
  const bool owned = !is_disowned(*socket);
  const bool last = owned && socket->remove_number(fd);
  if (last) socket->before_last_close(fd);
  const int result = kernel::close(fd);
  if (last && !socket->hand_over()) socket->close(linger);
  return result;
} catch (const std::exception&) {
  return no_memory();
}

int local_name(Socket& socket, sockaddr* address, socklen_t* octets) try {
  if (is_disowned(socket)) return fail(EBADF);
  const int code = give(socket.local_address(), address, octets);
  return code == 0 ? 0 : fail(code);
} catch (const std::exception&) {
  return no_memory();
}

int peer_name(Socket& socket, sockaddr* address, socklen_t* octets) try {
  if (is_disowned(socket)) return fail(EBADF);
  const auto name = socket.peer_address();
  if (!name) return fail(name);
  const int code = give(*name, address, octets);
  return code == 0 ? 0 : fail(code);
} catch (const std::exception&) {
  return no_memory();
}

int control(int fd, Socket& socket, int command, long argument) try {
  const int result = kernel::fcntl(fd, command, argument);
  if (result < 0) return result;
  if (command == F_SETFL) socket.nonblocking = (argument & O_NONBLOCK) != 0;
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) {
    if (!attempt([&] { socket.add_number(result); })) {
      kernel::close(result);
      return no_memory();
    }
    forget(result);
    sockets().set(result, socket.shared_from_this());
  }
  return result;
} catch (const std::exception&) {
  return no_memory();
}

}  // namespace weft::sockets

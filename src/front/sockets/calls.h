// The calls of a sockets program on sockets of ours: errno and numbers.
//
// What <rdma/rsocket.h> declares and what libc has with the same names are both thin fronts of
// these. Each is as its manual page has it: -1 and errno on failure.
#pragma once

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <csignal>
#include <memory>
#include <optional>

#include "front/sockets/fd_table.h"
#include "front/sockets/socket.h"

namespace weft::sockets {

/// All sockets of this process, by their numbers.
FdTable<Socket>& sockets();

/// The number leads to something else, or is about to: what the table has under it loses it. When
/// that was closed unseen, its stream ends here.
void forget(int fd);
/// Gives the socket a descriptor.
int enter(const SocketPtr& socket, int flags);

int new_socket(int domain, int type, int protocol);
int bind(Socket& socket, const sockaddr* address, socklen_t octets);
int listen(Socket& socket, int backlog);
int accept(Socket& socket, sockaddr* address, socklen_t* octets, int flags);
int connect(Socket& socket, const sockaddr* address, socklen_t octets);
/// EPIPE raises no signal here: rsockets never do.
ssize_t send(Socket& socket, const iovec* vector, std::size_t count, int flags);
/// The same, and waits whatever the socket is set to.
ssize_t send_waiting(Socket& socket, const iovec* vector, std::size_t count, int flags);
ssize_t receive(Socket& socket, const iovec* vector, std::size_t count, int flags);
/// As receive(); fills the rest of the message as TCP does: no address, no control data.
ssize_t receive_message(Socket& socket, msghdr* message, int flags);
/// EOPNOTSUPP: descriptors are to be passed, which a stream over a network cannot do.
ssize_t send_message(Socket& socket, const msghdr* message, int flags);
int shutdown(Socket& socket, int how);
/// `fd`: a number of this socket. `linger`: the last close waits until all has left.
int close(int fd, const SocketPtr& socket, bool linger);
int local_name(Socket& socket, sockaddr* address, socklen_t* octets);
int peer_name(Socket& socket, sockaddr* address, socklen_t* octets);
int set_option(Socket& socket, int level, int name, const void* value, socklen_t octets);
int get_option(Socket& socket, int level, int name, void* value, socklen_t* octets);
/// What the program set on a TCP socket that is neither connected nor listening holds for `to`,
/// which is fresh. False, and errno: no descriptor to find out with.
bool carry_options(int from, Socket& to);
/// fcntl on a number of a socket; the argument is a number or a pointer.
int control(int fd, Socket& socket, int command, long argument);

/// Before the process ends: closes all, and waits until what was written has left.
void leave();
/// The same where that may be in a signal handler, which may have interrupted anything.
void leave_at_once();

/// poll and select on sockets of ours and other descriptors together. `wait` null: for ever; select
/// leaves there what remained. `mask` as in ppoll.
int poll(pollfd* fds, nfds_t count, const timespec* wait, const sigset_t* mask = nullptr);
int select(int count, fd_set* readable, fd_set* writable, fd_set* exceptional, timespec* wait,
           const sigset_t* mask = nullptr);
/// epoll_pwait2 on a set with sockets of ours, whose readiness the calling thread shows meanwhile.
/// Nothing: somebody else does, so wait in the kernel. No cancellation point.
std::optional<int> epoll_wait(int epoll, epoll_event* events, int count, const timespec* wait,
                              const sigset_t* mask = nullptr);

}  // namespace weft::sockets

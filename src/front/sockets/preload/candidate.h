// TCP sockets of the program that may yet be switched to IWARP_MODE, and the switch.
//
// A program gets an ordinary TCP socket, and keeps it until it listens or connects: only then is it
// known which it should be. The switch puts another descriptor under the same number; what epoll
// sets knew of the number is remembered here and told again, since epoll knows open files.
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <weft/sockets.h>

#include "front/sockets/calls.h"
#include "front/sockets/mutex.h"

namespace weft::sockets {

/// Held by who reads or writes what a candidate has, whichever it is. A fork takes it, so that
/// a child's candidates are whole: so no call of the verbs, whose locks a fork takes too, is made
/// with it, nor one of a socket that others know.
inline constinit Mutex switching;

/// With `switching` held.
struct Candidate {
  std::optional<int> mode;                ///< as the program set it; empty: by the rules
  std::map<std::pair<int, int>, epoll_event> registered;  ///< by the epoll descriptor and ours
  std::uint16_t operations = IWARP_OPERATIONS_DEFAULT;
  bool owes_word = false;  ///< TCP does, of the attempt that it took over: to the next connect()
  int kept = -1;           ///< the TCP socket of one that is switched and may fall back
  ~Candidate();
};

FdTable<Candidate>& candidates();

/// Remembers a TCP socket that the program made. False: no memory, or too large a number.
bool consider(int fd);
/// Whether a call of this address comes from the program, not from a library of ours.
bool is_programs(const void* return_address);

/// Notes what the program tells an epoll set of a candidate.
void note_epoll(int fd, int epoll, int operation, const epoll_event* event);

/// IWARP_MODE by the program. 0, or -1 and errno.
int set_mode(int fd, const void* value, socklen_t octets);
int get_mode(int fd, void* value, socklen_t* octets);

/// Listens by iWARP if rules or mode say so. Nothing: it is TCP's business.
std::optional<int> listen_switched(int fd, int backlog);
/// Likewise connects.
std::optional<int> connect_switched(int fd, const sockaddr* address, socklen_t octets);

}  // namespace weft::sockets

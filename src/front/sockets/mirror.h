// The descriptor of a socket, and its readiness as the kernel shows it.
//
// A socket's descriptor is one end of a pair of UNIX sockets; we hold the other. So the kernel has
// something that poll, select, epoll (level, edge, one-shot), dup and fork can hold, and all four
// states of a stream can be shown on it: an octet in it makes it readable, a full send buffer not
// writable, a shut other end hung up.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

namespace weft::sockets {

/// The program's end is addressed by a number that still leads to it, which the caller gives: the
/// program may close and duplicate as it likes. One thread at a time.
class Mirror {
 public:
  Mirror() = default;
  ~Mirror() { close(); }
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  /// For whom the other end is.
  enum class Near : std::uint8_t {
    Program,  ///< of this process
    Passed    ///< to another one, by a thread of ours
  };

  /// Makes the pair; gives the program's end. It shows: not readable, writable.
  /// `flags`: SOCK_CLOEXEC, SOCK_NONBLOCK. Errors: EMFILE, ENFILE, ENOMEM.
  Result<int> open(int flags, Near near = Near::Program);
  void close();
  bool is_open() const { return far_ >= 0; }

  void show_readable(int near, bool readable);
  /// More came while it was readable: whoever waits for edges hears of it.
  void show_more(int near);
  void show_writable(int near, bool writable);
  /// The peer has ended its direction.
  void show_end();
  /// Both directions have ended.
  void show_hang_up();

  /// Takes back the octets that show that it is readable: another process would read them.
  void take_octets(int near);
  /// The program's end becomes a channel for octets, for another process that has it: shows no
  /// readiness any more. Call while a number still leads there.
  void clear(int near);
  /// It shows that the peer has ended its direction, which cannot be taken back: nothing can be
  /// sent through any more.
  bool shows_end() const { return ended_; }
  bool shows_hang_up() const { return hung_up_; }
  /// Something lies in the program's end.
  bool is_readable(int near) const;
  /// Nobody has the program's end open.
  bool is_abandoned() const;
  /// Whoever had it left octets.
  bool has_legacy() const;
  int far() const { return far_; }
  /// Counts how often it came to show something else.
  unsigned changes() const { return changes_; }

 private:
  int far_ = -1;
  unsigned octets_ = 0;  ///< that lie unread in the near end
  unsigned changes_ = 0;
  bool full_ = false;
  bool ended_ = false, hung_up_ = false;
};

/// A forked child closes its copy of such a descriptor at once, as it does with our ends.
void close_in_children(int fd);

}  // namespace weft::sockets

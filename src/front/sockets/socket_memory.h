// A connected socket's registered memory and its operations: locks and waiting.
//
// Made when a program first asks for any of it, so that a socket that only carries a stream pays
// nothing. Ends at the socket's last close in this process, before that returns: whatever another
// process goes on with (socket_relay.cc), this memory is the program's alone again.
#pragma once

#include <mutex>
#include <span>

#include <weft/sockets.h>

#include "base/result.h"
#include "front/sockets/operations.h"
#include "front/sockets/regions.h"
#include "front/sockets/remote_key.h"
#include "front/sockets/socket.h"

namespace weft::sockets {

/// The static calls are those of <weft/sockets.h>, any thread. What they need of the socket they
/// take its mutex for.
class SocketMemory {
 public:
  SocketMemory(VerbsLane& lane, std::uint32_t open_max);
  ~SocketMemory();
  SocketMemory(const SocketMemory&) = delete;
  SocketMemory& operator=(const SocketMemory&) = delete;

  static Result<int> add_region(Socket& socket, void* memory, std::size_t octets, int rights);
  static Result<void> remove_region(Socket& socket, int number);
  static Result<RemoteMemory> describe(Socket& socket, int number);

  static Result<std::size_t> transfer(Socket& socket, bool reads, std::span<const iovec> local,
                                      const RemoteMemory& remote, std::uint64_t offset);
  /// 0 or an errno, not a Result: those cost as much as all else here.
  static int post_transfer(Socket& socket, bool reads, std::span<const iovec> local,
                           const RemoteMemory& remote, std::uint64_t offset, std::uint64_t context);
  static Result<void> post_send(Socket& socket, std::span<const iovec> local,
                                std::uint64_t context);
  static Result<void> post_receive(Socket& socket, const iovec& to, bool all,
                                   std::uint64_t context);
  /// `wait_ms`: 0: not at all; below 0: for ever.
  static Result<int> collect(Socket& socket, std::span<iwarp_completion> to, int wait_ms);
  /// A descriptor for the caller.
  static Result<int> completion_fd(Socket& socket);

  // For the socket, with its mutex held.
  /// Goes on with what the stream allows now.
  void advance(Stream& stream);
  bool sends_wait() const { return operations_.sends_wait(); }
  /// For who waits for it: it will be told, so poll again.
  bool drained() {
    operations_.expect_ends();
    return operations_.drained();
  }

  // For the socket, without it.
  /// The last close: nothing uses memory of the program when it returns. On a blocking socket
  /// operations have two seconds to finish; then the connection is broken.
  static void end(Socket& socket);

 private:
  static Result<SocketMemory*> of(Socket& socket);
  /// The same while operations may still be started.
  static Result<SocketMemory*> open(Socket& socket);
  /// open() would give it, as it mostly does.
  static bool is_open(const Socket& socket) {
    return socket.state_ == Socket::State::Connected && !socket.closing_ &&
           socket.memory_ != nullptr && !socket.memory_->ending_ && !socket.stream().ended();
  }
  void look_for_ends(Socket& socket, int count);
  void expect_ends(Socket& socket);
  void await_mark(Socket& socket, std::unique_lock<Mutex>& lock);
  Error ended_error(const Stream& stream) const;
  void show_completions();
  void release_regions();

  VerbsLane& lane_;
  Regions regions_;
  Operations operations_;
  bool ending_ = false;
  int event_fd_ = -1;
  bool shown_ = false;
};

}  // namespace weft::sockets

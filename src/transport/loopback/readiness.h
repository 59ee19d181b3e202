// A level that a thread can wait for: an eventfd that is readable while the level is up.
#pragma once

#include "base/result.h"
#include "transport/tcp/socket.h"

namespace weft::transport {

/// Threads: one at a time (the network's lock); waiting on fd() is for any.
class Readiness {
 public:
  /// Without a descriptor: set() only remembers.
  Readiness() : socket_(-1) {}
  /// EMFILE, ENFILE, ENOMEM.
  static Result<Readiness> make();

  int fd() const { return socket_.fd(); }
  void set(bool up);

 private:
  explicit Readiness(int fd) : socket_(fd) {}

  Socket socket_;
  bool up_ = false;
};

}  // namespace weft::transport

// The other process of a test of <weft/sockets.h>: it does what it is told over the stream.
#pragma once

#include <weft/sockets.h>

#include <cstdint>
#include <string>

namespace weft::sockets::testing {

inline constexpr std::size_t kServerOctets = 4 << 20;

/// A command and its numbers, as they travel.
struct Command {
  enum What : std::uint32_t {
    GiveKey,      ///< answers the key of kServerOctets that may be read and written
    GiveReadKey,  ///< of other memory, that may only be read
    Fill,         ///< offset, octets, value; answers one octet
    Sum,          ///< offset, octets; answers the sum of the octets in 8
    Revoke,       ///< deregisters what GiveKey gave; answers one octet
    Echo,         ///< octets; answers the same octets when all have come
    Swallow,      ///< octets; answers the sum of the octets in 8
    WriteTo,      ///< offset, octets, and a key behind it: writes there from its own; one octet
    Stop,         ///< raises SIGSTOP, then answers one octet
    Kill,         ///< raises SIGKILL
    ShutDown,     ///< ends its direction
  };
  std::uint32_t what = GiveKey;
  std::uint32_t value = 0;
  std::uint64_t offset = 0;
  std::uint64_t octets = 0;
};

/// Starts this program again, with `--serve`, and ends it: the main() beside this serves then, in
/// place of running tests.
class ServerProcess {
 public:
  ServerProcess();
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  int pid() const { return pid_; }
  /// A socket connected to it, in IWARP_MODE_REQUIRED. `operations`: 0 for the default.
  int connect(int operations = 0) const;
  /// The same, or -1 and errno.
  int try_to_connect() const;

 private:
  int pid_ = -1;
  int port_ = 0;
};

/// Sends and receives all of it; false: the connection did not last.
bool send_all(int fd, const void* from, std::size_t octets);
bool receive_all(int fd, void* to, std::size_t octets);

}  // namespace weft::sockets::testing

// The line between the two ends: a socket pair made before they part. Never measured.
#pragma once

#include <sys/socket.h>
#include <type_traits>

#include "bench/work.h"

namespace weft::bench {

/// Blocking. The other end's death ends every call with a Failure.
class Control {
 public:
  /// fd: one end of a connected SOCK_SEQPACKET pair; owned.
  explicit Control(int fd) : fd_(fd) {}
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    put_octets(&value, sizeof value);
  }
  template <typename T>
  T get() {
    T value;
    if (!try_get(&value)) fail("the other end is gone");
    return value;
  }
  /// False: the other end closed the line.
  template <typename T>
  bool try_get(T* value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return get_octets(value, sizeof *value);
  }

 private:
  void put_octets(const void* octets, std::size_t count);
  bool get_octets(void* octets, std::size_t count);

  int fd_;
};

}  // namespace weft::bench

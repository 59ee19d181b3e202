// <weft/sockets.h> for C++: owners for what has to be given back, spans, and exceptions.
//
// Thin: every call here is one call there. What they mean, their limits and their threads are told
// there and in weft-sockets(7). A call that fails throws std::system_error with its errno.
// Header-only; C++20.
#pragma once

#include <weft/sockets.h>

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace weft::iwarp {

namespace detail {

/// `result`, unless it says that a call failed.
template <typename T>
T checked(T result, const char* call) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), call);
  return result;
}

}  // namespace detail

/// The peer's memory, as its key tells. A plain value.
class RemoteMemory {
 public:
  explicit RemoteMemory(const iwarp_key& key) {
    detail::checked(iwarp_import(&key, &remote_), "iwarp_import");
  }

  std::uint64_t octets() const { return remote_.octets; }
  bool readable() const { return (remote_.rights & IWARP_REMOTE_READ) != 0; }
  bool writable() const { return (remote_.rights & IWARP_REMOTE_WRITE) != 0; }
  const iwarp_remote& get() const { return remote_; }

 private:
  iwarp_remote remote_{};
};

/// A key as text, and back.
inline std::string to_text(const iwarp_key& key) {
  char text[IWARP_KEY_TEXT_OCTETS];
  iwarp_key_to_text(&key, text);
  return text;
}
inline iwarp_key key_of(const std::string& text) {
  iwarp_key key;
  detail::checked(iwarp_key_from_text(text.c_str(), &key), "iwarp_key_from_text");
  return key;
}

/// Memory registered on a socket until this object goes. It owns the registration alone: the memory
/// and the socket have to last longer, and operations that use it must be done before.
class RegisteredMemory {
 public:
  RegisteredMemory(int fd, std::span<std::byte> memory, int rights)
      : fd_(fd),
        memory_(memory),
        region_(detail::checked(iwarp_register(fd, memory.data(), memory.size(), rights),
                                "iwarp_register")) {}
  /// The objects of an array, a vector or the like.
  template <typename T, std::size_t Extent>
  requires(!std::is_const_v<T> && !std::is_same_v<T, std::byte> && std::is_trivially_copyable_v<T>)
      RegisteredMemory(int fd, std::span<T, Extent> objects, int rights)
      : RegisteredMemory(fd, std::span<std::byte>(std::as_writable_bytes(objects)), rights) {}

  RegisteredMemory(RegisteredMemory&& other) noexcept
      : fd_(other.fd_), memory_(other.memory_), region_(std::exchange(other.region_, -1)) {}
  RegisteredMemory& operator=(RegisteredMemory&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(memory_, other.memory_);
    std::swap(region_, other.region_);
    return *this;
  }
  /// Leaves it registered if an operation uses it still, or the socket is closed: then the socket
  /// has ended it. Who wants to know calls deregister().
  ~RegisteredMemory() {
    if (region_ >= 0) iwarp_deregister(fd_, region_);
  }

  void deregister() {
    detail::checked(iwarp_deregister(fd_, region_), "iwarp_deregister");
    region_ = -1;
  }
  iwarp_key key() const {
    iwarp_key key;
    detail::checked(iwarp_export(fd_, region_, &key), "iwarp_export");
    return key;
  }
  std::span<std::byte> span() const { return memory_; }
  int region() const { return region_; }

 private:
  int fd_;
  std::span<std::byte> memory_;
  int region_;
};

// Reads and writes that wait.

inline void write(int fd, std::span<const std::byte> from, const RemoteMemory& to,
                  std::uint64_t offset = 0) {
  detail::checked(iwarp_write(fd, from.data(), from.size(), &to.get(), offset), "iwarp_write");
}
inline void read(int fd, std::span<std::byte> to, const RemoteMemory& from,
                 std::uint64_t offset = 0) {
  detail::checked(iwarp_read(fd, to.data(), to.size(), &from.get(), offset), "iwarp_read");
}
inline void write(int fd, std::span<const iovec> from, const RemoteMemory& to,
                  std::uint64_t offset = 0) {
  detail::checked(iwarp_writev(fd, from.data(), static_cast<int>(from.size()), &to.get(), offset),
                  "iwarp_writev");
}
inline void read(int fd, std::span<const iovec> to, const RemoteMemory& from,
                 std::uint64_t offset = 0) {
  detail::checked(iwarp_readv(fd, to.data(), static_cast<int>(to.size()), &from.get(), offset),
                  "iwarp_readv");
}

// Posted operations. False: as many are open as may be (EAGAIN); take completions first.

namespace detail {

inline bool posted(int result, const char* call) {
  if (result < 0 && errno == EAGAIN) return false;
  checked(result, call);
  return true;
}

}  // namespace detail

[[nodiscard]] inline bool post_write(int fd, std::span<const std::byte> from,
                                     const RemoteMemory& to, std::uint64_t offset,
                                     std::uint64_t context) {
  return detail::posted(iwarp_post_write(fd, from.data(), from.size(), &to.get(), offset, context),
                        "iwarp_post_write");
}
[[nodiscard]] inline bool post_read(int fd, std::span<std::byte> to, const RemoteMemory& from,
                                    std::uint64_t offset, std::uint64_t context) {
  return detail::posted(iwarp_post_read(fd, to.data(), to.size(), &from.get(), offset, context),
                        "iwarp_post_read");
}
[[nodiscard]] inline bool post_write(int fd, std::span<const iovec> from, const RemoteMemory& to,
                                     std::uint64_t offset, std::uint64_t context) {
  return detail::posted(
      iwarp_post_writev(fd, from.data(), static_cast<int>(from.size()), &to.get(), offset, context),
      "iwarp_post_writev");
}
[[nodiscard]] inline bool post_read(int fd, std::span<const iovec> to, const RemoteMemory& from,
                                    std::uint64_t offset, std::uint64_t context) {
  return detail::posted(
      iwarp_post_readv(fd, to.data(), static_cast<int>(to.size()), &from.get(), offset, context),
      "iwarp_post_readv");
}
[[nodiscard]] inline bool post_send(int fd, std::span<const std::byte> from,
                                    std::uint64_t context) {
  return detail::posted(iwarp_post_send(fd, from.data(), from.size(), context), "iwarp_post_send");
}
/// `flags`: 0 or MSG_WAITALL.
[[nodiscard]] inline bool post_receive(int fd, std::span<std::byte> to, int flags,
                                       std::uint64_t context) {
  return detail::posted(iwarp_post_recv(fd, to.data(), to.size(), flags, context),
                        "iwarp_post_recv");
}

/// What became of a posted operation.
class Completion {
 public:
  std::uint64_t context() const { return completion_.context; }
  std::uint64_t octets() const { return completion_.octets; }
  iwarp_operation operation() const { return static_cast<iwarp_operation>(completion_.operation); }
  bool ok() const { return completion_.error == 0; }
  std::error_code error() const { return {completion_.error, std::generic_category()}; }
  /// Throws what went wrong, if anything did.
  void check() const {
    if (!ok()) throw std::system_error(error(), "a posted operation");
  }

 private:
  friend std::span<Completion> poll(int, std::span<Completion>);
  friend std::span<Completion> wait(int, std::span<Completion>, std::optional<int>);
  iwarp_completion completion_{};
};
static_assert(sizeof(Completion) == sizeof(iwarp_completion));

/// Those of `room` that were filled.
inline std::span<Completion> poll(int fd, std::span<Completion> room) {
  auto* first = reinterpret_cast<iwarp_completion*>(room.data());
  const int count =
      detail::checked(iwarp_poll(fd, first, static_cast<int>(room.size())), "iwarp_poll");
  return room.first(static_cast<std::size_t>(count));
}
/// The same; without a time it waits for ever, unless nothing is open.
inline std::span<Completion> wait(int fd, std::span<Completion> room,
                                  std::optional<int> timeout_ms = std::nullopt) {
  auto* first = reinterpret_cast<iwarp_completion*>(room.data());
  const int count = detail::checked(
      iwarp_wait(fd, first, static_cast<int>(room.size()), timeout_ms.value_or(-1)), "iwarp_wait");
  return room.first(static_cast<std::size_t>(count));
}

/// Readable while there are completions to take; for poll and epoll.
class CompletionDescriptor {
 public:
  explicit CompletionDescriptor(int socket)
      : fd_(detail::checked(iwarp_completion_fd(socket), "iwarp_completion_fd")) {}
  CompletionDescriptor(CompletionDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  CompletionDescriptor& operator=(CompletionDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~CompletionDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace weft::iwarp

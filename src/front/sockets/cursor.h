// A walk through the octets of an iovec, which a call may take up where another left off.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace weft::sockets {

/// Borrows the vector and its memory. One thread.
class Cursor {
 public:
  explicit Cursor(std::span<const iovec> vector) : vector_(vector) {
    for (const iovec& part : vector) left_ += part.iov_len;
  }

  /// Octets from here to the end.
  std::size_t left() const { return left_; }

  /// Copies the next `octets` <= left() of them to `to`, and steps over them.
  void copy_to(std::uint8_t* to, std::size_t octets) {
    step(octets, [&to](std::uint8_t* part, std::size_t size) {
      std::memcpy(to, part, size);
      to += size;
    });
  }
  /// Fills the next `octets` <= left() of them, and steps over them.
  void copy_from(const std::uint8_t* from, std::size_t octets) {
    step(octets, [&from](std::uint8_t* part, std::size_t size) {
      std::memcpy(part, from, size);
      from += size;
    });
  }
  /// Steps over the next `octets` <= left() of them, and calls `visit` with each part of them.
  template <typename Visit>
  void visit(std::size_t octets, Visit visit) {
    step(octets, visit);
  }
  void skip(std::size_t octets) {
    step(octets, [](std::uint8_t*, std::size_t) {});
  }

 private:
  template <typename Visit>
  void step(std::size_t octets, Visit visit) {
    left_ -= octets;
    while (octets != 0) {
      const iovec& part = vector_.front();
      const std::size_t size = std::min(octets, part.iov_len - offset_);
      if (size != 0) visit(static_cast<std::uint8_t*>(part.iov_base) + offset_, size);
      octets -= size;
      offset_ += size;
      if (offset_ == part.iov_len) {
        vector_ = vector_.subspan(1);
        offset_ = 0;
      }
    }
  }

  std::span<const iovec> vector_;
  std::size_t offset_ = 0;  ///< in the first part
  std::size_t left_ = 0;
};

}  // namespace weft::sockets

// Descriptors on their way between processes, with one octet that carries them.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace weft::sockets {

/// What sendmsg and recvmsg take for kCount descriptors. `message` points into it: it stays where
/// it is.
template <std::size_t kCount>
class Rights {
 public:
  Rights() {
    message.msg_iov = &part_;
    message.msg_iovlen = 1;
    message.msg_control = room_.data();
    message.msg_controllen = room_.size();
  }
  explicit Rights(const std::array<int, kCount>& descriptors) : Rights() {
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptors);
    std::memcpy(CMSG_DATA(header), &descriptors, sizeof descriptors);
  }
  Rights(const Rights&) = delete;
  Rights& operator=(const Rights&) = delete;

  /// What came; -1 for each that did not.
  std::array<int, kCount> descriptors() const {
    std::array<int, kCount> all;
    all.fill(-1);
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
      const std::size_t octets = header->cmsg_len - CMSG_LEN(0);
      std::memcpy(&all, CMSG_DATA(header), std::min(octets, sizeof all));
    }
    return all;
  }

  msghdr message{};

 private:
  char octet_ = 0;
  iovec part_{&octet_, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kCount * sizeof(int))> room_{};
};

}  // namespace weft::sockets

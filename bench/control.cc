// One packet per value.
#include "bench/control.h"

#include <unistd.h>

#include <cerrno>

namespace weft::bench {

Control::~Control() { ::close(fd_); }

void Control::put_octets(const void* octets, std::size_t count) {
  if (::send(fd_, octets, count, MSG_NOSIGNAL) != static_cast<ssize_t>(count)) {
    fail("the other end is gone");
  }
}

bool Control::get_octets(void* octets, std::size_t count) {
  ssize_t got = 0;
  do {
    got = ::recv(fd_, octets, count, 0);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && errno != ECONNRESET) fail_errno("the line between the two ends");
  if (got > 0 && got != static_cast<ssize_t>(count)) fail("the two ends lost step");
  return got > 0;
}

}  // namespace weft::bench

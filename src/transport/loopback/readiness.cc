// The eventfd behind a readiness level.
#include "transport/loopback/readiness.h"

#include <sys/eventfd.h>

#include <cstdint>

namespace weft::transport {

Result<Readiness> Readiness::make() {
  const long fd = raw::call(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) {
    return Error{static_cast<int>(-fd), "no eventfd can be made"};
  }
  return Readiness(static_cast<int>(fd));
}

void Readiness::set(bool up) {
  if (up == up_) {
    return;
  }
  up_ = up;
  if (fd() < 0) {
    return;
  }
  std::uint64_t count = 1;
  if (up) {
    raw::write(fd(), &count, sizeof count);
  } else {
    raw::read(fd(), &count, sizeof count);
  }
}

}  // namespace weft::transport

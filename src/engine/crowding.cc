// What the kernel tells of a thread.
#include "engine/crowding.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <array>
#include <charconv>

#include "base/number_gate.h"
#include "transport/tcp/syscalls.h"

namespace weft::engine {

Crowding& Crowding::here() {
  [[gnu::tls_model("initial-exec")]] static constinit thread_local Crowding crowding;
  return crowding;
}

std::int64_t Crowding::taken() {
  rusage counted{};
  getrusage(RUSAGE_THREAD, &counted);
  return counted.ru_nivcsw;
}

/// "RAN WAITED SLICES", in nanoseconds the first two.
Duration Crowding::waited() {
  std::array<char, 96> text;
  long octets = -1;
  {
    const NumberGate gate;
    const long fd = transport::raw::call(SYS_openat, AT_FDCWD, "/proc/thread-self/schedstat",
                                         O_RDONLY | O_CLOEXEC);
    if (fd < 0) return {};
    octets = transport::raw::call(SYS_read, fd, text.data(), text.size());
    transport::raw::call(SYS_close, fd);
  }
  std::array<std::int64_t, 2> numbers{};
  const char* at = text.data();
  const char* const end = at + std::max(octets, 0L);
  for (std::int64_t& number : numbers) {
    const auto [behind, error] = std::from_chars(at, end, number);
    if (error != std::errc() || behind == end) return {};
    at = behind + 1;
  }
  return Duration{numbers[1]};
}

}  // namespace weft::engine

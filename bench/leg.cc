// Clock, errors and sizes as text.
#include "bench/leg.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <ctime>

namespace weft::bench {

void fail_errno(std::string_view what) { fail("{}: {}", what, std::strerror(errno)); }

std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

std::string size_text(std::uint64_t octets) {
  constexpr std::uint64_t kKi = 1024;
  if (octets >= kKi * kKi && octets % (kKi * kKi) == 0) return fmt::format("{} MiB", octets >> 20);
  if (octets >= kKi && octets % kKi == 0) return fmt::format("{} KiB", octets >> 10);
  return fmt::format("{} B", octets);
}

}  // namespace weft::bench

// What the kernel tells of a thread.
#include "engine/crowding.h"

#include <sys/resource.h>
#include <time.h>

namespace weft::engine {

Crowding& Crowding::here() {
  [[gnu::tls_model("initial-exec")]] static constinit thread_local Crowding crowding;
  return crowding;
}

Crowding::Usage Crowding::usage() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  rusage counted{};
  getrusage(RUSAGE_THREAD, &counted);
  return {{},
          Duration{std::int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec},
          counted.ru_nivcsw,
          counted.ru_nvcsw};
}

}  // namespace weft::engine

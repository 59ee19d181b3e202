// fork() and registered memory.
//
// An RNIC writes to the physical pages it pinned, so copy-on-write after a fork could leave it
// writing to the child's copy; the verbs therefore mark registered pages. A software RNIC reads and
// writes through the process's own mappings, which fork keeps right by itself: nothing to mark.
#include <infiniband/verbs.h>

#include <cstddef>

#include "front/libibverbs/export.h"

// Not in the public header: private to rdma-core's own libraries, yet in the public node 1.1.
extern "C" int ibv_dontfork_range(void* base, std::size_t octets);
extern "C" int ibv_dofork_range(void* base, std::size_t octets);

WEFT_EXPORT int ibv_fork_init() {
  return 0;
}
WEFT_EXPORT ibv_fork_status ibv_is_fork_initialized() {
  return IBV_FORK_UNNEEDED;
}
WEFT_EXPORT int ibv_dontfork_range(void*, std::size_t) {
  return 0;
}
WEFT_EXPORT int ibv_dofork_range(void*, std::size_t) {
  return 0;
}

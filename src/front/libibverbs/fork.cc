// fork() and registered memory.
//
// An RNIC writes to the physical pages it pinned, so copy-on-write after a fork could leave it
// writing to the child's copy; the verbs therefore mark registered pages. A software RNIC reads and
// writes through the process's own mappings, which fork keeps right by itself: nothing to mark.
// What the library behind has to mark, it marks; its providers ask us for it.
#include <infiniband/verbs.h>

#include <cstddef>

#include "front/libibverbs/behind.h"
#include "front/libibverbs/export.h"

using weft::front::behind;

WEFT_EXPORT int ibv_fork_init() {
  return behind().ibv_fork_init();
}
WEFT_EXPORT ibv_fork_status ibv_is_fork_initialized() {
  return behind().ibv_is_fork_initialized();
}
WEFT_EXPORT int ibv_dontfork_range(void* base, std::size_t octets) {
  return behind().ibv_dontfork_range(base, octets);
}
WEFT_EXPORT int ibv_dofork_range(void* base, std::size_t octets) {
  return behind().ibv_dofork_range(base, octets);
}

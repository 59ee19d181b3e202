/* Preloaded into ucx_perftest. The side that is written to waits for its peer in poll(), 1 ms at a
 * time, and lets UCX make progress only between. A fair target keeps progressing, so here it does
 * not sleep. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>

enum { kWaitMs = 1 };

__attribute__((visibility("default"))) int poll(struct pollfd* fds, nfds_t count, int timeout_ms) {
  static int (*system_poll)(struct pollfd*, nfds_t, int);
  if (!system_poll) {
    /* ISO C has no way from a pointer to a function, POSIX has this one. */
    *(void**)&system_poll = dlsym(RTLD_NEXT, "poll");
  }
  return system_poll(fds, count, timeout_ms == kWaitMs ? 0 : timeout_ms);
}

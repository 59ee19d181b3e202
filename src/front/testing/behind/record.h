/* The second verbs library, which stands for the machine's own: it has two devices, records every
 * call, and answers what the test tells it to. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { kArguments = 8 };

struct Record {
  /* The last call, and how many there were. */
  const char* symbol;
  long arguments[kArguments];
  int calls;
  /* The next calls' result and errno. 0: the object that there is of that kind, or 0. */
  long answer;
  int error;
  /* Since the library was loaded. */
  int fork_init_calls;
  int lists;              /* those that were given out and not given back */
  const void* drivers[8]; /* in the order in which they registered */
  int driver_count;
  char log[128]; /* what a provider logged last */
  /* The objects of the first device, whose context there is always. */
  void* devices[2];
  void *context, *pd, *mr, *mw, *channel, *cq, *qp, *srq, *ah, *dm, *wq;
};

/* Exported, so that the test finds it. */
struct Record* weft_test_record(void);

/* Records, sets errno, gives the answer. */
long record_call(const char* symbol, const long* arguments);

/* A function that takes whatever it gets: the eight first arguments, two of them on the stack. */
#define RECORDED(name)                                                                             \
  long name(long a, long b, long c, long d, long e, long f, long g, long h);                       \
  __attribute__((visibility("default"))) long name(long a, long b, long c, long d, long e, long f, \
                                                   long g, long h) {                               \
    const long arguments[kArguments] = {a, b, c, d, e, f, g, h};                                   \
    return record_call(#name, arguments);                                                          \
  }

#ifdef __cplusplus
}
#endif

// dup3 beside threads that open descriptors, and where those of ours lie.
#include "front/libibverbs/numbers.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "base/number_gate.h"
#include "front/libibverbs/export.h"
#include "verbs/process_runtime.h"

WEFT_EXPORT int weft_dup3(int fd, int to, int flags) {
  const weft::NumberGate gate;
  return static_cast<int>(::syscall(SYS_dup3, fd, to, flags));
}

WEFT_EXPORT void weft_beside_dup3(void (*act)(void* cookie), void* cookie) {
  const weft::NumberGate gate;
  act(cookie);
}

WEFT_EXPORT void weft_leave_numbers() {
  weft::verbs::ProcessRuntime::instance().set_numbers(weft::Numbers::OutOfTheWay);
}

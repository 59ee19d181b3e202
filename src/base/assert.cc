// The hosted assert hook: say which assertion failed, then stop. A freestanding build has its own.
#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace weft {

void assert_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "weft: assertion failed: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace weft

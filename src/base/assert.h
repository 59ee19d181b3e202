// Assertions for our own bugs only: never for what a peer, a program or the world did.
#pragma once

namespace weft {

/// Called when an assertion fails. A hosted build prints and aborts; a freestanding build supplies
/// its own, which may return (the caller then fails its QP).
void assert_failed(const char* expression, const char* file, int line);

}  // namespace weft

#define weft_assert(expression) \
  ((expression) ? static_cast<void>(0) : ::weft::assert_failed(#expression, __FILE__, __LINE__))

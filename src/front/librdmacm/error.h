// How the C functions of this library report an error: errno and -1.
#pragma once

#include <cerrno>

#include "base/result.h"

namespace weft::front::cm {

inline int fail(int code) {
  errno = code;
  return -1;
}
inline int fail(const Error& error) { return fail(error.code); }

}  // namespace weft::front::cm

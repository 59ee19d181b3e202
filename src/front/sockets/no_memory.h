// What becomes of a call that runs out of memory: no exception leaves it, since its caller is C.
//
//     int call(...) try {
//       ...
//     } catch (const std::exception&) {
//       return no_memory();
//     }
//
// All that the standard library throws here is for want of memory. What is no such exception, as a
// thread's cancellation, goes on.
#pragma once

#include <cerrno>
#include <exception>

namespace weft::sockets {

inline int no_memory() {
  errno = ENOMEM;
  return -1;
}

/// For what is done for nobody in particular. False: it was not done to its end.
template <typename Do>
bool attempt(Do what) {
  try {
    what();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace weft::sockets

// What weft's own verbs library has for the sockets code; no other one does.
#pragma once

#include <dlfcn.h>

namespace weft::sockets {

/// Null: the verbs library is another one. To be called while this library is loaded, and not first
/// when it is needed: a child forked in the midst of that would wait for its end.
template <typename Call>
Call of_our_verbs(const char* name) {
  return reinterpret_cast<Call>(dlvsym(RTLD_DEFAULT, name, "WEFT_PRIVATE_1"));
}

}  // namespace weft::sockets

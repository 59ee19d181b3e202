// The lookup of weft_private_runtime.
#include "front/librdmacm/find_runtime.h"

#include <dlfcn.h>

namespace weft::front::cm {

verbs::Runtime* find_runtime() {
  // Looked up and not linked to: beside a foreign libibverbs.so.1 the loader would end the program,
  // before we can say what is wrong.
  void* symbol = dlvsym(RTLD_DEFAULT, "weft_private_runtime", "WEFT_PRIVATE_1");
  return symbol != nullptr ? reinterpret_cast<verbs::Runtime* (*)()>(symbol)() : nullptr;
}

}  // namespace weft::front::cm

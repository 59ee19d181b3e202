// Descriptors of ours among the program's: front/libibverbs/numbers.h, where that is there.
#include "front/sockets/numbers.h"

#include "front/sockets/our_verbs.h"

namespace weft::sockets {
namespace {

const auto weft_beside_dup3 =
    of_our_verbs<void (*)(void (*)(void*), void*)>("weft_beside_dup3");

const auto weft_leave_numbers = of_our_verbs<void (*)()>("weft_leave_numbers");

}  // namespace

void beside_dup3(void (*act)(void* cookie), void* cookie) {
  weft_beside_dup3 != nullptr ? weft_beside_dup3(act, cookie) : act(cookie);
}

void leave_numbers() {
  if (weft_leave_numbers != nullptr) weft_leave_numbers();
}

}  // namespace weft::sockets

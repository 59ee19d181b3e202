// The way from librdmacm.so.1 to the runtime in libibverbs.so.1.
#pragma once

#include "verbs/runtime.h"

namespace weft::front::cm {

/// The process's runtime; null when libibverbs.so.1 is not ours.
verbs::Runtime* find_runtime();

}  // namespace weft::front::cm

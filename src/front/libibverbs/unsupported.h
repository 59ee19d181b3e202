// What stands in an operation table for what weft does not do.
#pragma once

#include <cerrno>
#include <type_traits>

namespace weft::front {

template <typename Function>
struct Unsupported;

/// A function of any signature that fails with EOPNOTSUPP the way verbs of its result type do.
template <typename Answer, typename... Arguments>
struct Unsupported<Answer (*)(Arguments...)> {
  static Answer call(Arguments...) {
    errno = EOPNOTSUPP;
    if constexpr (std::is_pointer_v<Answer>) {
      return nullptr;
    } else if constexpr (!std::is_void_v<Answer>) {
      return static_cast<Answer>(EOPNOTSUPP);
    }
  }
};

/// Fills the slot, so that no caller has to test for null.
template <typename Function>
constexpr void refuse(Function& slot) {
  slot = &Unsupported<Function>::call;
}

}  // namespace weft::front

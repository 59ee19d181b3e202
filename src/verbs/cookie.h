// The cookies under which the device knows our objects: their addresses.
#pragma once

#include <cstdint>

namespace weft::verbs {

/// A pointer is as good as a handle here: the device gives no event for an object once its destroy
/// call has returned, and the object lives until then.
inline std::uint64_t to_cookie(void* object) { return reinterpret_cast<std::uintptr_t>(object); }

template <typename Object>
Object* from_cookie(std::uint64_t cookie) {
  return reinterpret_cast<Object*>(static_cast<std::uintptr_t>(cookie));
}

}  // namespace weft::verbs

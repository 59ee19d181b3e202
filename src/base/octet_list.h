// Octets in several pieces: what arrived, without a copy that would make them one.
#pragma once

#include <span>

#include "base/octets.h"

namespace weft {

/// A borrowed list of spans read as one run of octets. Copying it copies only the view.
struct OctetList {
  std::span<const Octets> parts;

  constexpr std::size_t size() const {
    std::size_t n = 0;
    for (const Octets& part : parts) n += part.size();
    return n;
  }
};

}  // namespace weft

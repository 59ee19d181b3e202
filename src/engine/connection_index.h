// Where a connection is, by its number, in one look at memory.
#pragma once

#include <bit>
#include <cstddef>
#include <vector>

#include "device/device.h"

namespace weft::engine {

class Connection;

/// A table with one place for all numbers that are equal modulo its size: who finds a connection
/// here compares its number, and who finds none looks elsewhere. Numbers are given in turn, so
/// those of connections of an age lie side by side.
///
/// Threads: one at a time.
class ConnectionIndex {
 public:
  /// Room for so many. Throws std::bad_alloc, and then is as it was. True: it is empty now, and all
  /// are to be put in again.
  bool reserve(std::size_t count) {
    if (count <= places_.size()) return false;
    places_ = std::vector<Connection*>(std::bit_ceil(2 * count));
    return true;
  }
  /// The latest of those that have the same place is the one that is found.
  void put(device::ConnectionNumber number, Connection* connection) {
    places_[place_of(number)] = connection;
  }
  void remove(device::ConnectionNumber number, const Connection* connection) {
    if (at(number) == connection) places_[place_of(number)] = nullptr;
  }
  /// The connection of that number or another one, or null.
  Connection* at(device::ConnectionNumber number) const {
    return places_.empty() ? nullptr : places_[place_of(number)];
  }

 private:
  std::size_t place_of(device::ConnectionNumber number) const {
    return number & (places_.size() - 1);
  }

  std::vector<Connection*> places_;  ///< a power of two, or none
};

}  // namespace weft::engine

// What clients ask a server with many connections, and what it answers.
#pragma once

#include <cstdint>

#include <vector>

#include "bench/work.h"

namespace weft::bench {

inline constexpr std::size_t kRequestOctets = 4096;
inline constexpr std::size_t kAnswerOctets = 16;

/// A request begins with this, and it is the whole answer.
struct Request {
  std::uint64_t connection;  ///< counted from 0 in the order of connecting
  std::uint64_t number;      ///< of the request on its connection, in this leg
};
static_assert(sizeof(Request) == kAnswerOctets);

/// How many requests each connection makes in a leg, and which are still to come. Every connection
/// has one request open at a time.
class RequestBook {
 public:
  explicit RequestBook(const Leg& leg)
      : numbers_(leg.connections, 0), each_(leg.count / leg.connections) {}

  std::uint64_t left() const { return numbers_.size() * each_ - done_; }
  /// Checks one that arrived, a request or its answer. True: there is another after it.
  bool take(std::size_t connection, const Request& arrived) {
    std::uint64_t& number = numbers_[connection];
    if (arrived.connection != connection || arrived.number != number) {
      fail("wrong data: request {} of connection {} came as {} of {}", number, connection,
           arrived.number, arrived.connection);
    }
    ++done_;
    return ++number < each_;
  }
  Request current(std::size_t connection) const { return {connection, numbers_[connection]}; }

 private:
  std::vector<std::uint64_t> numbers_;
  std::uint64_t each_;
  std::uint64_t done_ = 0;
};

}  // namespace weft::bench

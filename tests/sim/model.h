// What memory has to look like: the octets that one direction's work places, in the only order in
// which they may come.
#pragma once

#include <vector>

#include "tests/sim/workload.h"

namespace weft::sim {

/// One zone and the one sequence of octets that may be placed into it. Whatever happens to a
/// stream, the zone holds the first N octets of the sequence over its first content, for some N
/// that only grows; guards and neighbours belong to the zone and never change.
class Mirror {
 public:
  /// `actual` outlives the mirror; its content now is the content before the first placement.
  explicit Mirror(const Bytes& actual) : actual_(&actual), expected_(actual) {}

  /// While the sequence is drawn up. An operation may place nothing, or several runs. `whole`: no
  /// part of these octets is ever seen without the others.
  void append(std::size_t place, Bytes octets, bool whole = false) {
    steps_.push_back({place, std::move(octets), whole});
  }
  std::size_t step_count() const { return steps_.size(); }

  enum class Match : std::uint8_t {
    Yes,
    NotYet,  ///< a prefix of the sequence, but a shorter one than was asked for
    No,      ///< no prefix of the sequence
  };
  /// Does the zone hold at least the first `steps` steps and no more than a prefix?
  Match settle(std::size_t steps);
  /// The first octet that differs, after settle() did not say Yes.
  std::size_t difference() const;

 private:
  struct Step {
    std::size_t place;
    Bytes octets;
    bool whole;
  };
  bool advance(std::size_t steps);

  const Bytes* actual_;
  Bytes expected_;
  std::vector<Step> steps_;
  std::size_t step_ = 0;   ///< steps applied
  std::size_t octet_ = 0;  ///< and octets of the next one
};

/// The effects of one end's operations, in posting order.
struct Effects {
  /// Where the sequences stand once an operation has taken effect.
  struct Position {
    std::size_t front = 0;  ///< steps in the peer's front zone
    std::size_t home = 0;   ///< steps in our home zone
  };

  /// `receives_before`: receives of the peer's that are used up before the first Send (the RTR).
  Effects(Arena& own, Arena& peer, const Workload& work, const Workload& peer_work,
          std::size_t receives_before);

  Mirror front;                 ///< of the peer
  Mirror home;                  ///< of ours
  std::vector<Position> after;  ///< of each operation
  /// The operation that fills each receive of the peer's, as far as there is one.
  std::vector<std::size_t> fills;
  static constexpr std::size_t kNothing = ~std::size_t{0};
};

}  // namespace weft::sim

// Playing the operations on copies of memory, and finding how far the real one got.
#include "tests/sim/model.h"

#include <algorithm>
#include <cstring>

namespace weft::sim {

// Applies at least `steps` steps, then as many octets more as it takes to equal what is there.
bool Mirror::advance(std::size_t steps) {
  while (step_ < steps) {
    const Step& step = steps_[step_++];
    std::copy(step.octets.begin() + static_cast<std::ptrdiff_t>(octet_), step.octets.end(),
              expected_.begin() + static_cast<std::ptrdiff_t>(step.place + octet_));
    octet_ = 0;
  }
  if (expected_ == *actual_) return true;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < expected_.size(); ++i) wrong += expected_[i] != (*actual_)[i];
  while (wrong > 0 && step_ < steps_.size()) {
    const Step& step = steps_[step_];
    for (; octet_ < step.octets.size() && (wrong > 0 || (step.whole && octet_ > 0)); ++octet_) {
      const std::size_t at = step.place + octet_;
      wrong -= expected_[at] != (*actual_)[at];
      expected_[at] = step.octets[octet_];
      wrong += expected_[at] != (*actual_)[at];
    }
    if (octet_ == step.octets.size()) {
      ++step_;
      octet_ = 0;
    }
  }
  return wrong == 0;
}

Mirror::Match Mirror::settle(std::size_t steps) {
  if (step_ >= steps) return advance(step_) ? Match::Yes : Match::No;
  Mirror before = *this;
  if (advance(steps)) return Match::Yes;
  return before.advance(before.step_) ? Match::NotYet : Match::No;
}

std::size_t Mirror::difference() const {
  const auto at = std::mismatch(expected_.begin(), expected_.end(), actual_->begin()).first;
  return static_cast<std::size_t>(at - expected_.begin());
}

namespace {

Bytes cut(const Bytes& from, std::size_t begin, std::size_t octets) {
  const auto first = from.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(octets)};
}

std::uint64_t number_in(const Bytes& memory, std::size_t at) {
  std::uint64_t number;
  std::memcpy(&number, memory.data() + at, sizeof number);
  return number;
}
Bytes octets_of(std::uint64_t number) {
  Bytes octets(sizeof number);
  std::memcpy(octets.data(), &number, sizeof number);
  return octets;
}

/// The two atomic operations as RFC 7306 §5.1 writes them down, bit by bit.
std::uint64_t changed_by(const Operation& operation, std::uint64_t original) {
  const wire::AtomicOperands& given = operation.operands;
  std::uint64_t result = 0;
  if (operation.opcode == core::WorkOpcode::CompareSwap) {
    for (unsigned bit = 0; bit < 64; ++bit) {
      const std::uint64_t here = std::uint64_t{1} << bit;
      if ((given.compare_mask & here) && (given.compare & here) != (original & here)) {
        return original;
      }
      result |= ((given.data_mask & here) ? given.data : original) & here;
    }
    return result;
  }
  unsigned carry = 0;
  for (unsigned bit = 0; bit < 64; ++bit) {
    const unsigned sum = carry + (original >> bit & 1) + (given.data >> bit & 1);
    result |= std::uint64_t{sum & 1} << bit;
    carry = (given.data_mask >> bit & 1) ? 0 : sum >> 1;
  }
  return result;
}

/// Plays the operations one after another on copies of the zones.
class Player {
 public:
  Player(Arena& own, Arena& peer, const Workload& peer_work, std::size_t receives_before,
         Effects& effects)
      : next_receive_(receives_before),
        own_(own),
        peer_(peer),
        peer_work_(peer_work),
        effects_(effects),
        home_(own.memory(Zone::Home)),
        front_(peer.memory(Zone::Front)) {}

  /// False: the operation ends the stream, nothing after it takes effect.
  bool play(const Operation& operation, std::size_t index) {
    const Illegal illegal = operation.illegal;
    const bool takes_effect =
        illegal == Illegal::None || illegal == Illegal::SendTooLong ||
        illegal == Illegal::InvalidateBadSTag || illegal == Illegal::WriteBeyondEnd ||
        illegal == Illegal::WindowWriteBeyondEnd || illegal == Illegal::WindowInvalidateType1;
    if (!takes_effect) return false;
    if (operation.is_atomic()) {
      play_atomic(operation);
    } else if (operation.is_request()) {
      play_read(operation);
    } else if (operation.opcode == core::WorkOpcode::Write) {
      play_write(operation);
    } else if (operation.opcode == core::WorkOpcode::WriteImmediate) {
      play_write(operation);
      if (next_receive_ == peer_work_.receives.size()) return false;
      effects_.fills[next_receive_++] = index;
    } else if (operation.is_send() && !play_send(operation, index)) {
      return false;
    }
    return illegal == Illegal::None;
  }

 private:
  Bytes payload(const Operation& operation) const {
    if (!operation.inline_data.empty()) return operation.inline_data;
    Bytes octets;
    for (const Run& run : operation.local) {
      const Bytes part = cut(home_, own_.place(run), run.octets);
      octets.insert(octets.end(), part.begin(), part.end());
    }
    return octets;
  }
  void place_front(std::size_t at, Bytes octets, bool whole = false) {
    std::copy(octets.begin(), octets.end(), front_.begin() + static_cast<std::ptrdiff_t>(at));
    effects_.front.append(at, std::move(octets), whole);
  }
  void place_home(std::size_t at, Bytes octets) {
    std::copy(octets.begin(), octets.end(), home_.begin() + static_cast<std::ptrdiff_t>(at));
    effects_.home.append(at, std::move(octets));
  }
  void play_atomic(const Operation& operation) {
    const std::size_t at = peer_.place(*operation.remote);
    const std::uint64_t original = number_in(front_, at);
    place_front(at, octets_of(changed_by(operation, original)), true);
    place_home(own_.place(operation.local[0]), octets_of(original));
  }
  void play_write(const Operation& operation) {
    Bytes octets = payload(operation);
    if (octets.empty()) return;
    // Whole segments before the end of the region, or of the window, may still be placed.
    const Window* window = operation.window ? &peer_.window(*operation.window) : nullptr;
    const std::size_t room = window != nullptr ? window->offset + window->octets
                                               : peer_.region(operation.remote->region).octets;
    octets.resize(std::min<std::size_t>(octets.size(), room - operation.remote->offset));
    if (!octets.empty()) place_front(peer_.place(*operation.remote), std::move(octets));
  }
  // False: there is no receive, or it is too short.
  bool play_send(const Operation& operation, std::size_t index) {
    if (next_receive_ == peer_work_.receives.size()) return false;
    effects_.fills[next_receive_] = index;
    const Bytes octets = payload(operation);
    std::size_t done = 0;
    for (const Run& run : peer_work_.receives[next_receive_++].sges) {
      const std::size_t part = std::min<std::size_t>(run.octets, octets.size() - done);
      if (part > 0) place_front(peer_.place(run), cut(octets, done, part));
      done += part;
    }
    return done == octets.size();
  }
  void play_read(const Operation& operation) {
    if (operation.octets == 0) return;
    Bytes octets = cut(front_, peer_.place(*operation.remote), operation.octets);
    place_home(own_.place(operation.local[0]), std::move(octets));
  }

  std::size_t next_receive_;
  const Arena& own_;
  const Arena& peer_;
  const Workload& peer_work_;
  Effects& effects_;
  Bytes home_, front_;
};

}  // namespace

Effects::Effects(Arena& own, Arena& peer, const Workload& work, const Workload& peer_work,
                 std::size_t receives_before)
    : front(peer.memory(Zone::Front)),
      home(own.memory(Zone::Home)),
      fills(peer_work.receives.size(), kNothing) {
  Player player(own, peer, peer_work, receives_before, *this);
  bool alive = true;
  for (std::size_t i = 0; i < work.operations.size(); ++i) {
    alive = alive && player.play(work.operations[i], i);
    after.push_back({front.step_count(), home.step_count()});
  }
}

}  // namespace weft::sim

// How a process asks for a connection that the process which made it still has itself.
//
// Each process with sockets is asked at an abstract address. Who has the descriptor of one of its
// sockets sends that, and the end of a pair on which the answer comes: nobody can ask for a socket
// that it does not have, and who waits for a process that ends is told so by the kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/result.h"

namespace weft::sockets {

enum class Answer : char {
  Yes,     ///< the descriptor carries the stream, for all that have it
  NotNow,  ///< ask again soon
  No,
};

/// Where the process that calls itself `maker` is asked. Errors: EMFILE and its kin, EADDRINUSE.
Result<int> open_questions(std::uint64_t maker);

class Question {
 public:
  /// The next one that waits, if there is one. Does not wait.
  static std::optional<Question> take(int questions);
  Question(Question&& other) noexcept
      : near_(std::exchange(other.near_, -1)), answer_(std::exchange(other.answer_, -1)) {}
  Question& operator=(Question&&) = delete;
  ~Question();

  /// What the other process says that it wants.
  int near() const { return near_; }
  void answer(Answer word) const;

 private:
  Question(int near, int answer) : near_(near), answer_(answer) {}
  int near_, answer_;
};

/// Asks the maker of what `near` leads to, and waits for its answer. Nothing: it has gone, or does
/// not answer, or there is no descriptor to ask with. Calls the kernel alone.
std::optional<Answer> ask(int near);

/// The descriptor carries the stream already.
bool carries_octets(int near);

/// This process is about to use a connection that another one made. Waits until it may, in vain for
/// a moment at most if that one cannot hand it over. True: it may.
bool begin_use(int near);

}  // namespace weft::sockets

// Numbers of descriptors of ours among the program's, and those had for a moment only.
#pragma once

namespace weft {

/// A new descriptor has the lowest free number, until who made it has moved it away and closed that
/// number. Whoever puts something under a number of its choice meanwhile (dup2) would have it
/// closed. So both pass here, one at a time.
///
/// Waits for a second at most and goes on then, and opens it for others when it is done: a signal
/// handler may have interrupted its own thread here, and may never go back to it. Hosted builds
/// only. Threads: any; a forked child finds it open.
class NumberGate {
 public:
  NumberGate();
  ~NumberGate();
  NumberGate(const NumberGate&) = delete;
  NumberGate& operator=(const NumberGate&) = delete;
};

/// Another number for `fd`, above those of the program, or any if there is none. Closed on exec.
/// -1, with errno: there is none at all.
int duplicate_out_of_the_way(int fd);

/// Gives `fd` a number above those of the program, which gets the lowest and may count on few.
/// Returns the number that it has then; what is no descriptor, as is. On a thread of ours with a
/// NumberGate held since before `fd` was there.
int out_of_the_way(int fd);

/// What numbers new descriptors have.
enum class Numbers : unsigned char {
  Lowest,      ///< as a kernel device's: they are the program's
  OutOfTheWay  ///< above the program's, which does not know that they are made
};

/// The descriptor that make() makes, which calls the kernel by number; -1, with errno: none.
/// Threads: any.
template <typename Make>
int make_descriptor(Numbers numbers, Make make) {
  if (numbers == Numbers::Lowest) return static_cast<int>(make());
  const NumberGate gate;
  return out_of_the_way(static_cast<int>(make()));
}

}  // namespace weft

// The same measurements over sockets of <weft/sockets.h>: registered memory, posted operations.
#pragma once

#include <cstdint>
#include <memory>

#include "measure/extended_calls.h"
#include "measure/memory.h"
#include "measure/runner.h"

namespace weft::measure {

/// fd: a connected socket in IWARP_MODE; owned. The two ends tell each other their memory on it.
/// Throws Failure if the peer tells nothing for long, or leaves on `line`.
std::unique_ptr<Runner> make_extended_runner(const Plan& plan, Side side, int fd, Line& line);

/// A descriptor that is closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// What ping and blast have in common: a socket, memory, the peer's memory, completions.
class ExtendedRunner : public Runner {
 public:
  ExtendedRunner(const Plan& plan, Side side, int fd, std::unique_ptr<Memory> memory);
  /// Before the first leg.
  void establish(Line& line);

  void arm() override {}  // its descriptor is readable as long as there are completions
  int descriptor() const override { return completions_->get(); }
  short events() const override;
  void woken() override;
  void check() override {}

 protected:
  /// Of an operation, in its context beside a number.
  enum class Kind : std::uint8_t { Message, Receive, Flush, Mark, MarkReceive };

  /// An operation is done. number: as it was posted.
  virtual void on_done(Kind kind, std::uint32_t number) = 0;

  /// One iwarp_poll; how many completions it found.
  int take() { return take(0); }
  /// Lets the connection move while nothing is open, which iwarp_poll does not: by a look at the
  /// stream, as any call of the socket.
  void look_at_stream();
  // Offsets are from the beginning of either end's memory.
  void post_write(std::size_t from, std::uint64_t octets, std::size_t to);
  void post_read(std::size_t to, std::uint64_t octets, std::size_t from, Kind kind = Kind::Message);
  void post_send(std::size_t from, std::uint64_t octets, Kind kind = Kind::Message);
  void post_receive(std::size_t to, std::uint64_t octets, Kind kind, std::uint32_t number);
  /// Posted, and not done.
  std::uint32_t open() const { return open_; }

  const Plan& plan_;
  const Side side_;
  Leg leg_;
  std::unique_ptr<Memory> memory_;  // it stays until the socket is closed

 private:
  int take(int wait_ms);
  void count_posted(int result, const char* call);
  void tell_own();
  void learn_peers(Line& line);

  const ExtendedCalls& calls_;
  Descriptor socket_;
  std::unique_ptr<Descriptor> completions_;
  iwarp_remote peer_{};
  std::uint32_t open_ = 0;
};

std::unique_ptr<ExtendedRunner> make_extended_ping(const Plan& plan, Side side, int fd);
std::unique_ptr<ExtendedRunner> make_extended_blast(const Plan& plan, Side side, int fd);

}  // namespace weft::measure

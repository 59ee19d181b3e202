// The line between the two sides: a TCP connection beside what is measured, with frames of JSON.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "measure/address.h"
#include "measure/basics.h"

namespace weft::measure {

/// Raised with every change of what the frames mean. Sides of different versions refuse each other.
inline constexpr std::uint16_t kLineVersion = 1;
inline constexpr std::uint16_t kPort = 7472;

/// A frame is a head of 12 octets and a body, in network order: "WFTM", version, kind, octets of
/// the body. The head stays as it is in all versions, so that any two can tell each other theirs.
inline constexpr std::size_t kHeadOctets = 12;
inline constexpr std::uint32_t kBodyOctetsMax = 1u << 20;

enum class FrameKind : std::uint16_t {
  Hello = 1,     ///< client: the plan
  Ready = 2,     ///< server: where to connect; later: prepared for a leg
  Leg = 3,       ///< client: what comes next
  Finished = 4,  ///< client: its side of the leg is done
  Result = 5,    ///< server: what its side measured
  Refused = 6,   ///< either: why it goes no further; the last frame
  Bye = 7,       ///< client: all is measured
};

struct Head {
  std::uint16_t version = kLineVersion;
  FrameKind kind{};
  std::uint32_t octets = 0;
};

std::array<std::byte, kHeadOctets> encode_head(const Head& head);
/// Throws Failure for octets that are no head of any version, for another version (naming both),
/// an unknown kind, and a body that is too long. The octets may come from anyone.
Head parse_head(std::span<const std::byte, kHeadOctets> octets);

/// The peer's own word for why it goes no further.
struct RefusedByPeer : Failure {
  using Failure::Failure;
};

struct Frame {
  FrameKind kind{};
  nlohmann::json body;
};

/// One end, blocking. Every call throws Failure when the peer is gone, refuses, breaks the rules
/// above or is silent for too long, and Interrupted when interrupted() is set. Single-threaded.
class Line {
 public:
  /// To the server at `host`, a name or an address.
  static Line connect(const std::string& host, std::uint16_t port);
  /// fd: a connected socket; owned.
  explicit Line(int fd);
  ~Line();
  Line(Line&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Line& operator=(Line&&) = delete;

  void put(FrameKind kind, const nlohmann::json& body = nlohmann::json::object());
  /// The body of the next frame, which has to be of `kind`. seconds: longest wait, or forever.
  nlohmann::json get(FrameKind kind, std::optional<int> seconds = kPatience);
  Frame get_any(std::optional<int> seconds = kPatience);
  /// Tells the peer why, as far as it still listens. Never throws.
  void refuse(std::string_view reason) noexcept;

  /// Whether octets or the end wait to be read.
  bool is_readable(int milliseconds = 0) const;
  /// Throws if the peer left or refuses; what else it sent stays where it is.
  void check_peer();
  int descriptor() const { return fd_; }
  /// Numeric, as sockets of this connection have them.
  std::string own_address() const;
  std::string peer_address() const;

  static constexpr int kPatience = 20;

 private:
  void get_octets(std::span<std::byte> into, std::optional<int> seconds);

  int fd_;
};

/// Waits for clients. address: numeric, or empty for every one of this machine.
class LineListener {
 public:
  LineListener(const std::string& address, std::uint16_t port);
  ~LineListener();
  LineListener(const LineListener&) = delete;
  LineListener& operator=(const LineListener&) = delete;
  Line accept();

 private:
  int fd_;
};

/// The user's wish to stop (Ctrl-C), which ends what is under way; the figures so far are kept.
struct Interrupted : Failure {
  Interrupted() : Failure("interrupted") {}
};
/// From now on SIGINT and SIGTERM set interrupted() instead of ending the process.
void catch_interrupts();
bool interrupted();

}  // namespace weft::measure

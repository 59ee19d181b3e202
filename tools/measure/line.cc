// Frames over a socket; waiting in poll(2), so that a signal ends it.
#include "measure/line.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>

namespace weft::measure {
namespace {

constexpr char kMagic[] = {'W', 'F', 'T', 'M'};
constexpr std::size_t kReasonMax = 500;

std::atomic<bool> interrupt_wanted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void note_interrupt(int) {
  interrupt_wanted = true;
  // The second time it is meant: whatever hangs, this ends it.
  std::signal(SIGINT, SIG_DFL);
}

template <typename Number>
void put_number(std::byte* at, Number value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    at[i] = static_cast<std::byte>(value >> 8 * (sizeof value - 1 - i));
  }
}
template <typename Number>
Number get_number(const std::byte* at) {
  Number value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    value = static_cast<Number>(value << 8 | std::to_integer<unsigned>(at[i]));
  }
  return value;
}

/// What a peer wrote, fit for a terminal.
std::string printable(std::string text) {
  if (text.size() > kReasonMax) text.resize(kReasonMax);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return text;
}

std::string numeric(const sockaddr_storage& address, socklen_t length) {
  char text[NI_MAXHOST] = "";
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, text, sizeof text, nullptr, 0,
                NI_NUMERICHOST);
  std::string found = text;
  // A listener for everybody takes IPv4 as mapped; RDMA devices know only the plain address.
  if (found.starts_with("::ffff:") && found.find('.') != found.npos) found.erase(0, 7);
  return found;
}

bool wait_for(int fd, short events, int milliseconds) {
  pollfd waiting{fd, events, 0};
  const int ready = ::poll(&waiting, 1, milliseconds);
  if (ready < 0 && errno != EINTR) fail_errno("poll");
  return ready > 0;
}

/// A peer whose machine is gone sends nothing any more, not even an end.
void notice_dead_peer(int fd) {
  const int on = 1, idle = 5, interval = 2, count = 4;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = note_interrupt;  // without SA_RESTART: what waits is to wake
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() {
  return interrupt_wanted.load(std::memory_order_relaxed);
}

std::array<std::byte, kHeadOctets> encode_head(const Head& head) {
  std::array<std::byte, kHeadOctets> octets;
  std::memcpy(octets.data(), kMagic, sizeof kMagic);
  put_number(octets.data() + 4, head.version);
  put_number(octets.data() + 6, static_cast<std::uint16_t>(head.kind));
  put_number(octets.data() + 8, head.octets);
  return octets;
}

Head parse_head(std::span<const std::byte, kHeadOctets> octets) {
  if (std::memcmp(octets.data(), kMagic, sizeof kMagic) != 0) {
    fail("the peer is no weft ping or blast: it does not speak their protocol");
  }
  Head head;
  head.version = get_number<std::uint16_t>(octets.data() + 4);
  if (head.version != kLineVersion) {
    fail(
        "the peer speaks version {} of the measuring protocol and this side version {}: use the "
        "same weft on both",
        head.version, kLineVersion);
  }
  const auto kind = get_number<std::uint16_t>(octets.data() + 6);
  if (kind < static_cast<std::uint16_t>(FrameKind::Hello) ||
      kind > static_cast<std::uint16_t>(FrameKind::Bye)) {
    fail("the peer sent a frame of unknown kind {}", kind);
  }
  head.kind = static_cast<FrameKind>(kind);
  head.octets = get_number<std::uint32_t>(octets.data() + 8);
  if (head.octets > kBodyOctetsMax) fail("the peer sent a frame of {} octets", head.octets);
  return head;
}

Line::Line(int fd) : fd_(fd) {
  notice_dead_peer(fd_);
}

Line::~Line() {
  if (fd_ >= 0) ::close(fd_);
}

Line Line::connect(const std::string& host, std::uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
      error != 0) {
    fail("{}: {}", host, ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  int error = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int fd = ::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    if (::connect(fd, one->ai_addr, one->ai_addrlen) == 0) return Line(fd);
    error = errno;
    ::close(fd);
    if (interrupted()) throw Interrupted();
  }
  if (error == ECONNREFUSED) {
    fail("nobody listens at {} port {}: start the same command there, without an address", host,
         port);
  }
  fail("cannot connect to {} port {}: {}", host, port, std::strerror(error));
}

void Line::put(FrameKind kind, const nlohmann::json& body) {
  const std::string text = body.dump();
  const auto head = encode_head({.kind = kind, .octets = static_cast<std::uint32_t>(text.size())});
  std::string whole(reinterpret_cast<const char*>(head.data()), head.size());
  whole += text;
  for (std::size_t sent = 0; sent < whole.size();) {
    const ssize_t taken = ::send(fd_, whole.data() + sent, whole.size() - sent, MSG_NOSIGNAL);
    if (taken < 0 && errno == EINTR && !interrupted()) continue;
    if (interrupted()) throw Interrupted();
    if (taken < 0) fail("the peer is gone ({})", std::strerror(errno));
    sent += static_cast<std::size_t>(taken);
  }
}

void Line::get_octets(std::span<std::byte> into, std::optional<int> seconds) {
  constexpr int kSliceMs = 200;
  const std::uint64_t begin = now_ns();
  while (!into.empty()) {
    if (interrupted()) throw Interrupted();
    if (!wait_for(fd_, POLLIN, kSliceMs)) {
      if (seconds && now_ns() - begin > static_cast<std::uint64_t>(*seconds) * 1'000'000'000u) {
        fail("the peer has said nothing for {} s", *seconds);
      }
      continue;
    }
    const ssize_t got = ::recv(fd_, into.data(), into.size(), 0);
    if (got == 0) fail("the peer is gone");
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("the peer is gone ({})", std::strerror(errno));
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

Frame Line::get_any(std::optional<int> seconds) {
  std::array<std::byte, kHeadOctets> octets;
  get_octets(octets, seconds);
  const Head head = parse_head(octets);
  std::string text(head.octets, '\0');
  get_octets(std::as_writable_bytes(std::span(text)), kPatience);
  auto body = nlohmann::json::parse(text, nullptr, false);
  if (!body.is_object()) fail("the peer sent a frame that is no JSON object");
  if (head.kind == FrameKind::Refused) {
    const auto reason = body.find("reason");
    const bool told = reason != body.end() && reason->is_string();
    throw RefusedByPeer("the other side says: " +
                        (told ? printable(reason->get<std::string>()) : std::string("no")));
  }
  return {head.kind, std::move(body)};
}

nlohmann::json Line::get(FrameKind kind, std::optional<int> seconds) {
  Frame frame = get_any(seconds);
  if (frame.kind != kind) {
    fail("the peer sent a frame of kind {} instead of {}", static_cast<unsigned>(frame.kind),
         static_cast<unsigned>(kind));
  }
  return std::move(frame.body);
}

void Line::refuse(std::string_view reason) noexcept {
  try {
    const std::string text = nlohmann::json{{"reason", reason}}.dump(
        -1, ' ', false, nlohmann::json::error_handler_t::replace);
    const auto head = encode_head(
        {.kind = FrameKind::Refused, .octets = static_cast<std::uint32_t>(text.size())});
    std::string whole(reinterpret_cast<const char*>(head.data()), head.size());
    whole += text;
    // A few hundred octets: they fit, or the peer has not read for long.
    static_cast<void>(::send(fd_, whole.data(), whole.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    // What the peer sent and nobody read would turn the close into a reset, which may overtake the
    // reason.
    ::shutdown(fd_, SHUT_WR);
    std::array<std::byte, 4096> rest;
    while (wait_for(fd_, POLLIN, 500) && ::recv(fd_, rest.data(), rest.size(), 0) > 0) continue;
  } catch (...) {
    return;  // the peer sees the end of the line all the same
  }
}

bool Line::is_readable(int milliseconds) const {
  return wait_for(fd_, POLLIN, milliseconds);
}

void Line::check_peer() {
  std::array<std::byte, kHeadOctets> octets;
  const ssize_t seen = ::recv(fd_, octets.data(), octets.size(), MSG_PEEK | MSG_DONTWAIT);
  if (seen == 0) fail("the peer is gone");
  if (seen < 0) {
    if (errno == EAGAIN || errno == EINTR) return;
    fail("the peer is gone ({})", std::strerror(errno));
  }
  if (static_cast<std::size_t>(seen) < octets.size()) return;
  if (parse_head(octets).kind == FrameKind::Refused) get_any();  // throws with the reason
}

std::string Line::own_address() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length);
  return numeric(address, length);
}

std::string Line::peer_address() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  ::getpeername(fd_, reinterpret_cast<sockaddr*>(&address), &length);
  return numeric(address, length);
}

LineListener::LineListener(const std::string& address, std::uint16_t port) {
  Address where = parse_address(address.empty() ? "::" : address, port);
  fd_ = ::socket(where.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0 && address.empty()) {  // a machine without IPv6
    where = parse_address("0.0.0.0", port);
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  }
  if (fd_ < 0) fail_errno("socket");
  const int on = 1, off = 0;
  ::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.empty()) ::setsockopt(fd_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(fd_, where.get(), where.length) != 0 || ::listen(fd_, 16) != 0) {
    const int error = errno;
    ::close(fd_);
    fail("cannot listen on port {}{}: {}", port, address.empty() ? "" : " of " + address,
         std::strerror(error));
  }
}

LineListener::~LineListener() {
  ::close(fd_);
}

Line LineListener::accept() {
  while (true) {
    if (interrupted()) throw Interrupted();
    if (!wait_for(fd_, POLLIN, 200)) continue;
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) return Line(fd);
    if (errno != EINTR && errno != ECONNABORTED && errno != EAGAIN) fail_errno("accept");
  }
}

}  // namespace weft::measure

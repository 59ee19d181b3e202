// Keys, posting, completions.
#include "measure/extended_runner.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>

namespace weft::measure {
namespace {

constexpr int kPatienceMs = 10'000;
/// A wish to stop is seen so soon.
constexpr int kSliceMs = 200;
constexpr int kTakeBatch = 32;
constexpr int kRights = IWARP_LOCAL_WRITE | IWARP_REMOTE_READ | IWARP_REMOTE_WRITE;

}  // namespace

Descriptor::~Descriptor() {
  ::close(fd_);
}

ExtendedRunner::ExtendedRunner(const Plan& plan, Side side, int fd, std::unique_ptr<Memory> memory)
    : plan_(plan), side_(side), memory_(std::move(memory)), calls_(extended_calls()), socket_(fd) {}

void ExtendedRunner::establish(Line& line) {
  tell_own();
  learn_peers(line);
  if (plan_.wait != Wait::Event) return;
  // Not else: who has one has a thread of the library's at work.
  const int fd = calls_.completion_fd(socket_.get());
  if (fd < 0) fail_errno("iwarp_completion_fd");
  completions_ = std::make_unique<Descriptor>(fd);
}

void ExtendedRunner::tell_own() {
  const int region =
      calls_.register_memory(socket_.get(), memory_->base(), memory_->octets(), kRights);
  if (region < 0) fail_errno("iwarp_register");
  iwarp_key key;
  if (calls_.export_key(socket_.get(), region, &key) != 0) fail_errno("iwarp_export");
  if (::send(socket_.get(), &key, sizeof key, MSG_NOSIGNAL) != sizeof key) fail_errno("send");
}

void ExtendedRunner::learn_peers(Line& line) {
  iwarp_key key;
  const auto octets = std::as_writable_bytes(std::span(&key, 1));
  std::size_t got = 0;
  for (int waited = 0; got < octets.size();) {
    pollfd waiting{socket_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, kSliceMs) <= 0) {
      if (interrupted()) throw Interrupted();
      line.check_peer();
      if ((waited += kSliceMs) > kPatienceMs) fail("the other side did not tell its memory");
      continue;
    }
    const ssize_t now = ::recv(socket_.get(), &octets[got], octets.size() - got, MSG_DONTWAIT);
    if (now == 0) fail("the connection over sockets was closed");
    if (now < 0 && errno != EAGAIN && errno != EINTR) fail_errno("recv");
    if (now > 0) got += static_cast<std::size_t>(now);
  }
  if (calls_.import_key(&key, &peer_) != 0) {
    fail("a connection came that is none of weft ping or blast");
  }
}

void ExtendedRunner::look_at_stream() {
  std::byte octet;
  const ssize_t got = ::recv(socket_.get(), &octet, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got == 0) fail("the connection over sockets was closed");
  if (got < 0 && errno != EAGAIN && errno != EINTR) fail_errno("recv");
}

short ExtendedRunner::events() const {
  return POLLIN;
}

void ExtendedRunner::woken() {
  if (plan_.wait == Wait::Block) take(kSliceMs);
}

int ExtendedRunner::take(int wait_ms) {
  if (open_ == 0) return 0;
  std::array<iwarp_completion, kTakeBatch> done;
  const int count = wait_ms == 0 ? calls_.poll(socket_.get(), done.data(), kTakeBatch)
                                 : calls_.wait(socket_.get(), done.data(), kTakeBatch, wait_ms);
  if (count < 0) {
    if (errno == EINTR) return 0;
    fail_errno("iwarp_poll");
  }
  for (const auto& one : std::span(done).first(static_cast<std::size_t>(count))) {
    if (one.error != 0) fail_error(one.error, "an operation of the socket");
    const auto kind = static_cast<Kind>(one.context >> 32);
    const bool receives = kind == Kind::Receive || kind == Kind::MarkReceive;
    if (receives && one.octets != (kind == Kind::Receive ? leg_.octets : 1)) {
      fail("the connection over sockets was closed");
    }
    --open_;
    on_done(kind, static_cast<std::uint32_t>(one.context));
  }
  return count;
}

namespace {

template <typename Kind>
std::uint64_t context_of(Kind kind, std::uint32_t number = 0) {
  return static_cast<std::uint64_t>(kind) << 32 | number;
}

}  // namespace

void ExtendedRunner::count_posted(int result, const char* call) {
  if (result != 0) fail_errno(call);
  ++open_;
}

void ExtendedRunner::post_write(std::size_t from, std::uint64_t octets, std::size_t to) {
  count_posted(calls_.post_write(socket_.get(), memory_->base() + from, octets, &peer_, to,
                                 context_of(Kind::Message)),
               "iwarp_post_write");
}

void ExtendedRunner::post_read(std::size_t to, std::uint64_t octets, std::size_t from, Kind kind) {
  count_posted(
      calls_.post_read(socket_.get(), memory_->base() + to, octets, &peer_, from, context_of(kind)),
      "iwarp_post_read");
}

void ExtendedRunner::post_send(std::size_t from, std::uint64_t octets, Kind kind) {
  count_posted(calls_.post_send(socket_.get(), memory_->base() + from, octets, context_of(kind)),
               "iwarp_post_send");
}

void ExtendedRunner::post_receive(std::size_t to, std::uint64_t octets, Kind kind,
                                  std::uint32_t number) {
  count_posted(calls_.post_receive(socket_.get(), memory_->base() + to, octets, MSG_WAITALL,
                                   context_of(kind, number)),
               "iwarp_post_recv");
}

std::unique_ptr<Runner> make_extended_runner(const Plan& plan, Side side, int fd, Line& line) {
  auto runner = plan.tool == Tool::Ping ? make_extended_ping(plan, side, fd)
                                        : make_extended_blast(plan, side, fd);
  runner->establish(line);
  return runner;
}

}  // namespace weft::measure

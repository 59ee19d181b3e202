// One kernel TCP connection: moving octets and telling how it ended.
#include "transport/tcp/tcp_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

namespace weft::transport {
namespace {

constexpr std::size_t kEmssMin = 128;
/// Loopback's own is 64 KiB, unless somebody has changed it.
constexpr std::size_t kLoopbackMssMin = 16 * 1024;
constexpr std::size_t kPiecesMax = IOV_MAX;
/// So much arrived: bulk, and what the promise costs is nothing beside it.
constexpr std::uint64_t kPromiseFrom = 256 * 1024;
/// Of less its sender does not wait to hear.
constexpr std::size_t kOwedFrom = 16 * 1024;
/// Who polls so often in vain has no answer to give: some 10 us.
constexpr std::uint8_t kAnswerPatience = 32;
/// So much was sent: the peer has had time to promise. If it has not, it is asked again after four
/// times as much.
constexpr std::uint64_t kSpliceFrom = 1024 * 1024;
constexpr std::uint64_t kSpliceFromTimes = 4;

/// No call to the kernel is needed to find that there is nothing to move, and a receive of nothing
/// would look like a FIN.
bool nothing_in(std::span<const iovec> pieces) {
  for (const iovec& piece : pieces) {  // not std::all_of, which is unrolled: the first one tells
    if (piece.iov_len != 0) return false;
  }
  return true;
}

msghdr message_of(std::span<const iovec> pieces) {
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(pieces.data());  // the kernel only reads the array
  message.msg_iovlen = std::min(pieces.size(), kPiecesMax);
  return message;
}

long send_pieces(int fd, std::span<const iovec> pieces) {
  if (pieces.size() == 1) return raw::send(fd, pieces.front());
  const msghdr message = message_of(pieces);
  return raw::send(fd, &message);
}

long receive_pieces(int fd, std::span<const iovec> pieces) {
  if (pieces.size() == 1) return raw::receive(fd, pieces.front());
  msghdr message = message_of(pieces);
  return raw::receive(fd, &message);
}

/// The path MTU less the headers with TCP's time stamps; 0 when unknown.
std::size_t emss_by_mtu(int fd, int family) {
  int mtu = 0;
  socklen_t length = sizeof mtu;
  const bool v6 = family == AF_INET6;
  const long result =
      raw::get_option(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu, &length);
  const int headers = (v6 ? 40 : 20) + 20 + 12;
  return result < 0 || mtu <= headers ? 0 : static_cast<std::size_t>(mtu - headers);
}

bool read_info(int fd, tcp_info* info) {
  socklen_t length = sizeof *info;
  *info = {};
  return raw::get_option(fd, IPPROTO_TCP, TCP_INFO, info, &length) >= 0;
}

}  // namespace

TCPStream::TCPStream(Socket socket, Origin origin, const Address& local, const Address& peer)
    : socket_(std::move(socket)),
      origin_(origin),
      setup_(origin == Origin::Accepted ? Setup::Established : Setup::Connecting),
      splice_from_(kSpliceFrom),
      local_(local.is_any() ? local_address(socket_.fd()) : local),
      peer_(peer) {
  within_host_ = origin == Origin::Accepted && within_one_host(local_, peer_);
}

/// Those that the handshake and the first octets need not wait for: each is a call to the kernel,
/// and while the peer answers there is time for them.
void TCPStream::set_late_options() {
  if (origin_ == Origin::ConnectingWithinHost) send_at_once(socket_.fd());
  // Behind the handshake: a route may name a congestion control of its own (congctl), and that
  // comes last.
  if (within_host_) choose_congestion_control_within_host(socket_.fd());
}

Result<void> TCPStream::fail(int error) {
  setup_ = Setup::Failed;
  lost_ = error;
  return Error{error, "the TCP connection could not be established"};
}

Result<void> TCPStream::connected() {
  if (setup_ == Setup::Established) {
    return {};
  }
  if (setup_ == Setup::Failed || lost_ != 0) {
    return fail(lost_);
  }
  if (const Result<void> judged = judge_connecting(); !judged) {
    return judged;
  }
  if (local_.is_any()) {
    local_ = local_address(socket_.fd());
  }
  if (peer_.is_any()) {  // a way to say: this host
    peer_ = peer_address(socket_.fd());
  }
  if (local_.port() == peer_.port() && local_.same_host(peer_)) {
    reset();
    return fail(ECONNREFUSED);
  }
  setup_ = Setup::Established;
  if (origin_ == Origin::Connecting) {
    raw::set_option(socket_.fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
  }
  within_host_ = within_one_host(local_, peer_);
  return {};
}

Result<void> TCPStream::judge_connecting() {
  tcp_info info;
  const bool told = read_info(socket_.fd(), &info);
  if (told && (info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_CLOSE_WAIT)) {
    // An address of this host, and packets shorter than the loopback's: something on the way
    // (DNAT) leads to another host after all.
    if (origin_ == Origin::ConnectingWithinHost && info.tcpi_snd_mss < kLoopbackMssMin) {
      notice_lost_peers(socket_.fd());
    }
    emss_at_first_ = info.tcpi_snd_mss;
    return {};
  }
  int error = 0;
  socklen_t length = sizeof error;
  raw::get_option(socket_.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) {
    return fail(error);
  }
  if (peer_address(socket_.fd()).length() != 0) {
    return {};
  }
  return told && info.tcpi_state == TCP_CLOSE
             ? fail(ECONNRESET)
             : Error{EINPROGRESS, "the TCP connection is being established"};
}

IOResult TCPStream::lose(int error) {
  if (lost_ == 0) {
    lost_ = error;
  }
  return {IOResult::Kind::Lost, 0, lost_};
}

IOResult TCPStream::send(std::span<const iovec> pieces) {
  if (lost_ != 0) {
    return lose(lost_);
  }
  if (fin_sent_) {
    return {IOResult::Kind::Lost, 0, EPIPE};
  }
  if (nothing_in(pieces)) {
    return {};
  }
  if (splicer_ != nullptr && splicer_->under_way()) {
    return lose(ECONNABORTED);  // what was offered and not offered again: the stream has a hole
  }
  return judge_sending(send_pieces(socket_.fd(), pieces));
}

IOResult TCPStream::judge_sending(long result) {
  if (result > 0) {
    if (sent_ == 0) set_late_options();
    sent_ += static_cast<std::uint64_t>(result);
    owes_ack_ = 0;
    return {IOResult::Kind::Moved, static_cast<std::size_t>(result), 0};
  }
  switch (-result) {
    case 0:  // the first IOV_MAX pieces are all empty
    case EAGAIN:
    case ENOBUFS:  // the kernel is short of memory just now
    case ENOMEM:
      return {};
    case EFAULT:
      return {IOResult::Kind::BadMemory, 0, EFAULT};
    default:
      return lose(static_cast<int>(-result));
  }
}

IOResult TCPStream::receive(std::span<const iovec> pieces) {
  if (fin_received_) {
    return {IOResult::Kind::Closed, 0, 0};
  }
  // Not when lost_ is set: sending may have met the reset first, and what the peer said before it
  // (a Terminate perhaps) still waits in the kernel.
  if (socket_.fd() < 0) {
    return lose(lost_);
  }
  if (nothing_in(pieces)) {
    return {};
  }
  const long result = receive_pieces(socket_.fd(), pieces);
  if (result > 0) {
    count_received(static_cast<std::size_t>(result));
    return {IOResult::Kind::Moved, static_cast<std::size_t>(result), 0};
  }
  switch (-result) {
    case 0:
      if (lost_ != 0) {
        return lose(lost_);
      }
      if (nothing_in(pieces.first(std::min(pieces.size(), kPiecesMax)))) {
        return {};
      }
      fin_received_ = true;
      return {IOResult::Kind::Closed, 0, 0};
    case EAGAIN:
      if (owes_ack_ != 0 && --owes_ack_ == 0) acknowledge();
      return lost_ != 0 ? lose(lost_) : IOResult{};
    case ENOBUFS:
    case ENOMEM:
      return lost_ != 0 ? lose(lost_)
                        : IOResult{IOResult::Kind::WouldBlock, 0, static_cast<int>(-result)};
    case EFAULT:
      return {IOResult::Kind::BadMemory, 0, EFAULT};
    default:
      return lose(static_cast<int>(-result));
  }
}

void TCPStream::count_received(std::size_t octets) {
  received_ += octets;
  if (received_ >= kPromiseFrom && within_host_ && !promised_) {
    promised_ = true;
    promise_to_copy(socket_.fd());
  }
  if (promised_ && octets >= kOwedFrom) owes_ack_ = kAnswerPatience;
}

/// The sender writes to its memory again when it hears that this was read. TCP, which has seen
/// answers, waits for one that carries the acknowledgement, up to 40 ms.
void TCPStream::acknowledge() {
  raw::set_option(socket_.fd(), IPPROTO_TCP, TCP_QUICKACK, 1);
}

bool TCPStream::peer_copies() {
  return within_host_ && socket_.fd() >= 0 &&
         PeerSocket::copies(socket_.fd(), local_, peer_);
}

bool TCPStream::can_splice() {
  if (splicer_ != nullptr) {
    return true;
  }
  if (!within_host_ || sent_ < splice_from_ || lost_ != 0 || fin_sent_) {
    return false;
  }
  splice_from_ *= kSpliceFromTimes;
  splicer_ = Splicer::open(socket_.fd(), local_, peer_);
  return splicer_ != nullptr;
}

IOResult TCPStream::splice(std::span<const iovec> pieces) {
  if (splicer_ == nullptr || lost_ != 0 || fin_sent_ || nothing_in(pieces)) {
    return send(pieces);
  }
  const long result = splicer_->send(socket_.fd(), pieces);
  // Not all memory has pages to refer to (a device's has none), and whoever filters calls may allow
  // no more of these: then it is copied.
  if (result < 0 && result != -EAGAIN && !splicer_->under_way()) {
    return send(pieces);
  }
  return judge_sending(result);
}

std::size_t TCPStream::held() {
  return splicer_ == nullptr || socket_.fd() < 0 ? 0 : splicer_->held(socket_.fd(), fin_sent_);
}

void TCPStream::close_gracefully() {
  if (socket_.fd() >= 0 && !fin_sent_) {
    raw::shut_down(socket_.fd(), SHUT_WR);
  }
  fin_sent_ = true;
}

void TCPStream::reset() {
  if (socket_.fd() < 0) {
    return;
  }
  // A forked child may hold the descriptor too: then closing sends nothing, however SO_LINGER is
  // set. Disconnecting sends the RST whoever else holds it; not every kernel that calls itself
  // Linux can do it (gVisor), so the other way stays.
  const linger at_once = {1, 0};
  raw::set_option(socket_.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  raw::disconnect(socket_.fd());
  socket_.close();
  fin_received_ = false;
  lost_ = ECONNABORTED;
}

std::size_t TCPStream::emss() {
  tcp_info info;
  std::size_t octets = std::exchange(emss_at_first_, 0);
  if (socket_.fd() >= 0 && octets == 0) {
    octets = read_info(socket_.fd(), &info) ? info.tcpi_snd_mss : 0;
    if (octets == 0) {
      octets = emss_by_mtu(socket_.fd(), local_.family());
    }
  }
  return std::max(octets, kEmssMin);
}

}  // namespace weft::transport

// Questions to sock_diag(7): one socket each, exactly named.
#include "transport/tcp/peer_socket.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace weft::transport {
namespace {

// Since Linux 5.10; older headers do not name it.
constexpr int kSocketOptions = 22;
constexpr std::uint8_t kMulticastLoop = 1 << 4, kMulticastAll = 1 << 6;  // of its first octet

struct Question {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

/// IPv4 takes the first of the four words.
void store(const Address& address, __be32* words, __be16* port) {
  if (address.family() == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(address.sockaddr_ptr());
    words[0] = in->sin_addr.s_addr;
    *port = in->sin_port;
  } else {
    const auto* in = reinterpret_cast<const sockaddr_in6*>(address.sockaddr_ptr());
    std::memcpy(words, &in->sin6_addr, sizeof in->sin6_addr);
    *port = in->sin6_port;
  }
}

/// The value of the attribute of that kind, behind the answer's fixed part; null: it has none.
const std::uint8_t* find_attribute(const std::uint8_t* at, std::size_t octets, int kind) {
  while (octets >= NLA_HDRLEN) {
    nlattr attribute;
    std::memcpy(&attribute, at, sizeof attribute);
    if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > octets) return nullptr;
    if (attribute.nla_type == kind) {
      return attribute.nla_len > NLA_HDRLEN ? at + NLA_HDRLEN : nullptr;
    }
    const std::size_t step = NLA_ALIGN(attribute.nla_len);
    if (step >= octets) return nullptr;
    at += step;
    octets -= step;
  }
  return nullptr;
}

std::uint64_t cookie_of(int fd) {
  std::uint64_t cookie = 0;
  socklen_t length = sizeof cookie;
  return raw::get_option(fd, SOL_SOCKET, SO_COOKIE, &cookie, &length) < 0 ? 0 : cookie;
}

}  // namespace

struct PeerSocket::Seen {
  std::uint64_t cookie = 0;  ///< 0: there is no such socket (any more)
  std::uint32_t user = 0;
  std::size_t unread = 0;
  bool promised = false;
};

PeerSocket::PeerSocket(Socket diag, const Address& local, const Address& peer)
    : diag_(std::move(diag)), local_(local), peer_(peer) {}

/// Empty: no answer that could be understood.
std::optional<PeerSocket::Seen> PeerSocket::ask(const Address& its, const Address& others,
                                                std::uint64_t cookie) {
  Question question = {};
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.header.nlmsg_seq = ++asked_;
  question.body.sdiag_family = static_cast<std::uint8_t>(its.family());
  question.body.sdiag_protocol = IPPROTO_TCP;
  question.body.idiag_states = ~0u;
  inet_diag_sockid& id = question.body.id;
  store(its, id.idiag_src, &id.idiag_sport);
  store(others, id.idiag_dst, &id.idiag_dport);
  // Of no socket: INET_DIAG_NOCOOKIE, which is what all bits of 0 - 1 come to.
  const std::uint64_t asked = cookie == 0 ? ~std::uint64_t{0} : cookie;
  id.idiag_cookie[0] = static_cast<std::uint32_t>(asked);
  id.idiag_cookie[1] = static_cast<std::uint32_t>(asked >> 32);
  if (raw::send(diag_.fd(), iovec{&question, sizeof question}) < 0) return std::nullopt;

  alignas(nlmsghdr) std::array<std::uint8_t, 2048> answer;
  nlmsghdr header = {};
  long got = 0;
  do {  // the kernel answers within the call that asks; an answer that nobody took would come first
    got = raw::receive(diag_.fd(), iovec{answer.data(), answer.size()});
    if (got < static_cast<long>(sizeof header)) return std::nullopt;
    std::memcpy(&header, answer.data(), sizeof header);
  } while (header.nlmsg_seq != asked_);
  const std::size_t octets = std::min<std::size_t>(header.nlmsg_len, static_cast<std::size_t>(got));
  if (header.nlmsg_type == NLMSG_ERROR) {
    nlmsgerr error;
    if (octets < NLMSG_HDRLEN + sizeof error) return std::nullopt;
    std::memcpy(&error, answer.data() + NLMSG_HDRLEN, sizeof error);
    // ESTALE: another socket has its place now.
    if (error.error == -ENOENT || error.error == -ESTALE) return Seen{};
    return std::nullopt;
  }
  inet_diag_msg told;
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || octets < NLMSG_HDRLEN + sizeof told) {
    return std::nullopt;
  }
  std::memcpy(&told, answer.data() + NLMSG_HDRLEN, sizeof told);
  Seen seen;
  seen.cookie = told.id.idiag_cookie[0] | std::uint64_t{told.id.idiag_cookie[1]} << 32;
  // Where there is no such connection the kernel tells of a listener that has the port.
  if (told.idiag_state == TCP_LISTEN) return Seen{};
  if (told.idiag_state == TCP_TIME_WAIT || told.idiag_state == TCP_CLOSE) return Seen{};
  seen.user = told.idiag_uid;
  seen.unread = told.idiag_rqueue;
  const std::size_t fixed = NLMSG_ALIGN(NLMSG_HDRLEN + sizeof told);
  if (octets > fixed) {
    const std::uint8_t* options =
        find_attribute(answer.data() + fixed, octets - fixed, kSocketOptions);
    seen.promised = options != nullptr && (*options & (kMulticastLoop | kMulticastAll)) == 0;
  }
  return seen;
}

struct PeerSocket::Both {
  Seen ours, its;
};

/// Empty: no peer that has promised to copy.
std::optional<PeerSocket> PeerSocket::look(int fd, const Address& local, const Address& peer,
                                           Both& seen) {
  if (local.family() != peer.family() || local.length() == 0) return std::nullopt;
  const std::uint64_t own = cookie_of(fd);
  if (own == 0) return std::nullopt;
  Socket diag(static_cast<int>(
      raw::open_socket(AF_NETLINK, SOCK_DGRAM, NETLINK_SOCK_DIAG)));
  if (diag.fd() < 0) return std::nullopt;
  PeerSocket found(std::move(diag), local, peer);
  // Ours has to be there too, as this very socket: else we were asking another network namespace.
  const std::optional<Seen> ours = found.ask(local, peer, 0);
  if (!ours || ours->cookie != own) return std::nullopt;
  const std::optional<Seen> its = found.ask(peer, local, 0);
  if (!its || its->cookie == 0 || its->cookie == own || !its->promised) return std::nullopt;
  found.cookie_ = its->cookie;
  seen = {*ours, *its};
  return found;
}

std::optional<PeerSocket> PeerSocket::find(int fd, const Address& local, const Address& peer) {
  Both seen;
  std::optional<PeerSocket> found = look(fd, local, peer, seen);
  // Who has unread pages of ours sees what is written there later, should the stream end: that is
  // for nobody but ourselves.
  if (found && seen.its.user != seen.ours.user) return std::nullopt;
  return found;
}

bool PeerSocket::copies(int fd, const Address& local, const Address& peer) {
  Both seen;
  return look(fd, local, peer, seen).has_value();
}

PeerSocket::Unread PeerSocket::unread() {
  const std::optional<Seen> seen = ask(peer_, local_, cookie_);
  if (!seen) return {};
  if (seen->cookie == 0) return {Unread::Kind::Gone, 0};
  return {Unread::Kind::Known, seen->unread};
}

void promise_to_copy(int fd) {
  raw::set_option(fd, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
  raw::set_option(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
}

}  // namespace weft::transport

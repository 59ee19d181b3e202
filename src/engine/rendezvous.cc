// Names, searches, and the few octets that two QPs exchange.
#include "engine/rendezvous.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/byte_order.h"

namespace weft::engine {
namespace {

constexpr std::uint32_t kIndexBits = 8;
constexpr std::uint32_t kMagic = 0x77656674;  // "weft"
constexpr std::uint16_t kVersion = 1;
/// Between two attempts: doubles from the first to the last.
constexpr Duration kPauseMin = std::chrono::milliseconds(5);
constexpr Duration kPauseMax = std::chrono::milliseconds(500);

std::uint16_t port_of(std::uint32_t name) { return static_cast<std::uint16_t>(name >> kIndexBits); }
std::size_t index_of(std::uint32_t name) { return name & ((1u << kIndexBits) - 1); }

}  // namespace

std::array<std::uint8_t, Rendezvous::Hello::kOctets> Rendezvous::Hello::encode() const {
  std::array<std::uint8_t, kOctets> octets{};
  store_be32(octets.data(), kMagic);
  store_be16(octets.data() + 4, kVersion);
  store_be32(octets.data() + 8, target);
  store_be32(octets.data() + 12, source);
  return octets;
}

std::optional<Rendezvous::Hello> Rendezvous::Hello::parse(Octets octets) {
  // Longer ones are of a later version that says more behind.
  if (octets.size() < kOctets || load_be32(octets.data()) != kMagic) return {};
  return Hello{load_be32(octets.data() + 8), load_be32(octets.data() + 12)};
}

Result<Rendezvous::Port*> Rendezvous::port_with_room() {
  for (const auto& port : ports_) {
    if (port->used < kNamesPerPort) return port.get();
  }
  auto listening = host_.listen_anywhere(kRendezvousCookie);
  if (!listening) return listening.error();
  auto port = std::make_unique<Port>();
  port->listening = *listening;
  ports_.push_back(std::move(port));
  return ports_.back().get();
}

Result<std::uint32_t> Rendezvous::name(QueuePair& qp) {
  if (qp.name != 0) return qp.name;
  const Result<Port*> found = port_with_room();
  if (!found) return found.error();
  Port& port = **found;
  while (port.users[port.next] != nullptr) port.next = (port.next + 1) % kNamesPerPort;
  port.users[port.next] = &qp;
  ++port.used;
  qp.name = std::uint32_t{port.listening.port} << kIndexBits |
            static_cast<std::uint32_t>(port.next);
  port.next = (port.next + 1) % kNamesPerPort;
  return qp.name;
}

QueuePair* Rendezvous::find(std::uint32_t name) {
  for (const auto& port : ports_) {
    if (port->listening.port == port_of(name)) return port->users[index_of(name)];
  }
  return nullptr;
}

Result<void> Rendezvous::pair(QueuePair& qp, const device::PairRequest& request) {
  if (qp.name == 0 || qp.connection != nullptr || qp.core().state() != core::QPState::Idle) {
    return Error{EINVAL, "pair: the QP is not idle or has no name"};
  }
  Search search;
  search.qp = &qp;
  search.peer = request.peer;
  search.local = transport::Address(reinterpret_cast<const sockaddr*>(&request.local));
  search.remote = transport::Address(reinterpret_cast<const sockaddr*>(&request.remote));
  search.local.set_port(0);
  search.remote.set_port(port_of(request.peer));
  if (search.remote.family() == AF_UNSPEC || search.remote.port() == 0) {
    return Error{EINVAL, "pair: no QP can have that address and name"};
  }
  search.request = {.qp = qp.number(), .ird = request.ird, .ord = request.ord, .private_data = {}};
  search.pause = kPauseMin;
  // Names differ on one host; two hosts may give the same one, but not the same address.
  search.connects = qp.name < request.peer;
  if (qp.name == request.peer) {
    if (search.local.same_host(search.remote)) {
      return Error{EINVAL, "pair: a QP cannot be its own peer"};
    }
    search.connects = search.local.is_before(search.remote);
  }
  stop_search(qp);
  qp.patience = {};
  qp.core().set_paired();
  qp.searching = true;
  Search& kept = searches_[qp.number()] = std::move(search);
  if (kept.connects) {
    attempt(kept);
    return {};
  }
  const auto early = std::find_if(early_.begin(), early_.end(), [&](const Early& waiting) {
    return waiting.hello.target == qp.name && fits(kept, waiting.hello, waiting.peer);
  });
  if (early == early_.end()) return {};
  const device::ConnectionNumber connection = early->connection;
  early_.erase(early);
  accept(kept, connection);
  return {};
}

void Rendezvous::set_patience(QueuePair& qp, const device::PairPatience& patience) {
  qp.patience = patience;
  missing_.erase(qp.number());
  const auto it = searches_.find(qp.number());
  if (it != searches_.end()) it->second.give_up.reset();
  handle_work(qp);
}

void Rendezvous::stop_search(QueuePair& qp) {
  qp.searching = false;
  missing_.erase(qp.number());
  const auto it = searches_.find(qp.number());
  if (it == searches_.end()) return;
  const device::ConnectionNumber connection = it->second.connection;
  searches_.erase(it);
  if (connection != 0) host_.forget_connection(connection);
}

void Rendezvous::forget(QueuePair& qp) {
  stop_search(qp);
  if (qp.name == 0) return;
  for (const auto& port : ports_) {
    if (port->listening.port != port_of(qp.name)) continue;
    port->users[index_of(qp.name)] = nullptr;
    --port->used;
  }
  for (const Early& waiting : early_) {
    if (waiting.hello.target == qp.name) host_.refuse_connection(waiting.connection);
  }
  std::erase_if(early_, [&](const Early& e) { return e.hello.target == qp.name; });
  qp.name = 0;
}

void Rendezvous::attempt(Search& search) {
  search.next_attempt.reset();
  const auto hello = Hello{search.peer, search.qp->name}.encode();
  device::ConnectRequest request = search.request;
  request.private_data = hello;
  const auto begun = host_.begin_connect(search.local, search.remote, request,
                                         kRendezvousCookie | search.qp->number());
  if (begun) {
    search.connection = *begun;
    return;
  }
  // No route or no port just now: that may change.
  search.next_attempt = host_.now() + search.pause;
  search.pause = std::min(search.pause * 2, kPauseMax);
  host_.wake_at(*search.next_attempt);
}

void Rendezvous::accept(Search& search, device::ConnectionNumber connection) {
  search.connection = connection;
  // The peer may have left meanwhile; then it comes again, and this one is forgotten.
  if (!host_.accept_for(connection, search.request, kRendezvousCookie | search.qp->number())) {
    search.connection = 0;
  }
}

bool Rendezvous::fits(const Search& search, const Hello& hello,
                      const transport::Address& peer) const {
  return !search.connects && search.connection == 0 && hello.source == search.peer &&
         peer.same_host(search.remote);
}

void Rendezvous::handle_work(QueuePair& qp) {
  const auto it = searches_.find(qp.number());
  if (it == searches_.end()) return miss(qp);
  if (it->second.give_up || !qp.send_pending()) return;
  if (qp.patience.to_find == Duration::zero()) return;
  it->second.give_up = host_.now() + qp.patience.to_find;
  host_.wake_at(*it->second.give_up);
}

void Rendezvous::miss(QueuePair& qp) {
  if (!qp.core().misses_peer() || qp.patience.to_miss == Duration::zero()) return;
  const Instant give_up = host_.now() + qp.patience.to_miss;
  if (missing_.try_emplace(qp.number(), Missing{&qp, give_up}).second) host_.wake_at(give_up);
}

void Rendezvous::note(const device::ConnectionEvent& event) {
  Noted noted{event.kind, event.connection, event.cookie, {}, {}};
  if (event.kind == device::ConnectionEventKind::Requested) {
    noted.hello = Hello::parse(event.private_data);
    noted.peer = transport::Address(reinterpret_cast<const sockaddr*>(&event.peer));
  }
  noted_.push_back(noted);
}

void Rendezvous::settle() {
  // By index: what is done about one may bring more.
  for (std::size_t i = 0; i < noted_.size(); ++i) {
    const Noted noted = noted_[i];
    switch (noted.kind) {
      case device::ConnectionEventKind::Requested:
        handle_request(noted);
        break;
      case device::ConnectionEventKind::Established:
        if (Search* search = search_of(noted.cookie)) {
          search->qp->searching = false;
          searches_.erase(search->qp->number());
        }
        break;
      case device::ConnectionEventKind::Rejected:
      case device::ConnectionEventKind::Failed:
        handle_failure(noted);
        break;
      case device::ConnectionEventKind::Disconnected:
        if (QueuePair* qp = host_.find_qp(qp_of(noted.cookie))) miss(*qp);
        break;
    }
  }
  noted_.clear();
}

device::QPNumber Rendezvous::qp_of(std::uint64_t cookie) {
  return static_cast<device::QPNumber>(cookie & ~kRendezvousCookie);
}

Rendezvous::Search* Rendezvous::search_of(std::uint64_t cookie) {
  const auto it = searches_.find(qp_of(cookie));
  return it == searches_.end() ? nullptr : &it->second;
}

void Rendezvous::handle_request(const Noted& request) {
  QueuePair* qp = request.hello ? find(request.hello->target) : nullptr;
  if (qp == nullptr) return host_.refuse_connection(request.connection);
  const auto it = searches_.find(qp->number());
  if (it != searches_.end() && fits(it->second, *request.hello, request.peer)) {
    return accept(it->second, request.connection);
  }
  const bool may_look_later = it == searches_.end() && qp->connection == nullptr &&
                              qp->core().state() == core::QPState::Idle;
  if (!may_look_later) return host_.refuse_connection(request.connection);
  const Instant until = host_.now() + host_.early_patience();
  early_.push_back({request.connection, *request.hello, request.peer, until});
  host_.wake_at(until);
}

/// An attempt of ours came to nothing, or an early caller left.
void Rendezvous::handle_failure(const Noted& failure) {
  std::erase_if(early_, [&](const Early& e) { return e.connection == failure.connection; });
  Search* search = search_of(failure.cookie);
  if (search == nullptr || search->connection != failure.connection) return;
  search->connection = 0;
  if (search->qp->core().state() != core::QPState::Idle) {
    // It was found, and left before its first message.
    QueuePair& qp = *search->qp;
    stop_search(qp);
    return miss(qp);
  }
  if (!search->connects) return;
  search->next_attempt = host_.now() + search->pause;
  search->pause = std::min(search->pause * 2, kPauseMax);
  host_.wake_at(*search->next_attempt);
}

std::optional<Instant> Rendezvous::deadline() const {
  std::optional<Instant> first;
  const auto consider = [&first](const std::optional<Instant>& at) {
    if (at && (!first || *at < *first)) first = at;
  };
  for (const auto& [number, search] : searches_) {
    consider(search.next_attempt);
    consider(search.give_up);
  }
  for (const auto& [number, missing] : missing_) consider(missing.give_up);
  for (const Early& early : early_) consider(early.until);
  return first;
}

void Rendezvous::handle_timeouts() {
  std::vector<QueuePair*> hopeless;
  for (auto& [number, search] : searches_) {
    if (search.give_up && *search.give_up <= host_.now()) {
      hopeless.push_back(search.qp);
    } else if (search.next_attempt && *search.next_attempt <= host_.now()) {
      attempt(search);
    }
  }
  for (const auto& [number, missing] : missing_) {
    if (missing.give_up <= host_.now()) hopeless.push_back(missing.qp);
  }
  for (QueuePair* qp : hopeless) {
    stop_search(*qp);
    host_.fail_unreachable(*qp);
  }
  std::erase_if(early_, [&](const Early& early) {
    const bool over = early.until <= host_.now();
    if (over) host_.refuse_connection(early.connection);
    return over;
  });
}

}  // namespace weft::engine

// The RNIC's connection commands: listen, connect, accept, reject, disconnect.
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "engine/rnic.h"
#include "engine/rnic_entry.h"
#include "engine/rnic_listener.h"

namespace weft::engine {

Connection* Rnic::find_connection(device::ConnectionNumber number) {
  if (Connection* found = index_.at(number); found != nullptr && found->number() == number) {
    return found->dead() ? nullptr : found;
  }
  const auto it = connections_.find(number);
  return it == connections_.end() || it->second->dead() ? nullptr : it->second.get();
}

core::StartupConfig Rnic::startup_config(const device::ConnectRequest& request) const {
  core::StartupConfig config;
  config.crc = settings_.crc;
  config.markers = settings_.markers;
  config.revision = settings_.mpa_revision;
  config.ird = request.ird;
  config.ord = request.ord;
  config.peer_to_peer = settings_.peer_to_peer && settings_.mpa_revision == 2;
  config.rtr_send = settings_.rtr_send;
  config.rtr_write = settings_.rtr_write;
  config.rtr_read = settings_.rtr_read;
  config.timeout = settings_.startup_timeout;
  return config;
}

Result<device::ListenerNumber> Rnic::listen(const sockaddr* local, int backlog, bool v6_only,
                                            std::uint64_t cookie) try {
  const transport::Address address(local);
  if (address.family() == AF_UNSPEC) return Error{EAFNOSUPPORT, "listen: not an IP address"};
  Entry entry(*this);
  const auto slot = begin_listen(address, backlog, v6_only, cookie);
  if (!slot) return slot.error();
  return (*slot)->number;
} catch (const std::bad_alloc&) {
  return kOutOfMemory;
}

Result<Rnic::ListenerSlot*> Rnic::begin_listen(const transport::Address& address, int backlog,
                                               bool v6_only, std::uint64_t cookie) {
  auto listener = transport_.listen(address, {.backlog = backlog, .v6_only = v6_only});
  if (!listener) return listener.error();
  const device::ListenerNumber number = next_key_++;
  if (const auto watched = poller_.add((*listener)->fd(), EPOLLIN, number); !watched) {
    return watched.error();
  }
  auto slot = std::make_unique<ListenerSlot>();
  slot->listener = std::move(*listener);
  slot->number = number;
  slot->cookie = cookie;
  slot->places = std::make_shared<ListenerPlaces>(backlog);
  return listeners_.emplace(number, std::move(slot)).first->second.get();
}

Result<void> Rnic::listener_address(device::ListenerNumber number, sockaddr_storage* local) {
  Entry entry(*this);
  const auto it = listeners_.find(number);
  if (it == listeners_.end()) return Error{EINVAL, "no such listener"};
  const transport::Address address = it->second->listener->local();
  *local = {};
  std::memcpy(local, address.sockaddr_ptr(), address.length());
  return {};
}

Result<void> Rnic::close_listener(device::ListenerNumber number) {
  Entry entry(*this);
  const auto it = listeners_.find(number);
  if (it == listeners_.end()) return Error{EINVAL, "no such listener"};
  const std::shared_ptr<ListenerPlaces> places = it->second->places;
  poller_.remove(it->second->listener->fd());
  listeners_.erase(it);
  for (auto& [key, connection] : connections_) {
    if (connection->half_open_of(*places)) connection->release();
  }
  return {};
}

Result<device::ConnectionNumber> Rnic::connect(const sockaddr* local, const sockaddr* remote,
                                               const device::ConnectRequest& request,
                                               std::uint64_t cookie) try {
  Entry entry(*this);
  const auto made =
      make_connection(transport::Address(local), transport::Address(remote), request, cookie);
  if (!made) return made.error();
  Connection& c = **made;
  if (c.stream()->connects_at_once() && !begin_at_once(c)) return kOutOfMemory;
  handle_interest(c);
  handle_deadline(c);
  return c.number();
} catch (const std::bad_alloc&) {
  return kOutOfMemory;
}

Result<device::ConnectionNumber> Rnic::begin_connect(const transport::Address& local,
                                                     const transport::Address& remote,
                                                     const device::ConnectRequest& request,
                                                     std::uint64_t cookie) {
  // Not begun at once: whoever calls learns the number here, and may be told of no end before.
  const auto made = make_connection(local, remote, request, cookie);
  if (!made) return made.error();
  handle_interest(**made);
  handle_deadline(**made);
  return (*made)->number();
}

/// One that nobody watches yet.
Result<Connection*> Rnic::make_connection(const transport::Address& local,
                                          const transport::Address& remote,
                                          const device::ConnectRequest& request,
                                          std::uint64_t cookie) {
  QueuePair* qp = find_qp(request);
  if (qp == nullptr || qp->core().state() != core::QPState::Idle || qp->connection != nullptr) {
    return Error{EINVAL, "connect: the QP does not exist or is not idle"};
  }
  if (request.private_data.size() > wire::kPrivateDataOctetsMaxEnhanced) {
    return Error{EINVAL, "connect: more than 508 octets of private data"};
  }
  auto stream = transport_.connect(local, remote);
  if (!stream) return stream.error();
  const device::ConnectionNumber number = next_key_++;
  auto connection =
      std::make_unique<Connection>(number, static_cast<ConnectionOwner&>(*this), std::move(*stream),
                                   startup_config(request), *qp, request.private_data, cookie);
  Connection& c = *connection;
  add_connection(std::move(connection));
  return &c;
}

bool Rnic::reconnect(Connection& c) {
  const transport::Address peer = c.stream()->peer();
  transport::Address local = c.stream()->local();
  local.set_port(0);
  auto stream = transport_.connect(local, peer);
  if (!stream) return false;
  unwatch(c);
  c.restart(std::move(*stream));
  handle_interest(c);
  handle_deadline(c);
  return true;
}

Result<void> Rnic::accept(device::ConnectionNumber number, const device::ConnectRequest& request,
                          std::uint64_t cookie) {
  Entry entry(*this);
  return accept_for(number, request, cookie);
}

Result<void> Rnic::accept_for(device::ConnectionNumber number,
                              const device::ConnectRequest& request, std::uint64_t cookie) {
  Connection* connection = find_connection(number);
  QueuePair* qp = find_qp(request);
  if (connection == nullptr) return Error{ECONNRESET, "accept: the peer left before the answer"};
  if (qp == nullptr || qp->core().state() != core::QPState::Idle || qp->connection != nullptr) {
    return Error{EINVAL, "accept: the QP does not exist or is not idle"};
  }
  return connection->accept(*qp, request, cookie);
}

Result<void> Rnic::reject(device::ConnectionNumber number, Octets private_data) {
  Entry entry(*this);
  Connection* connection = find_connection(number);
  if (connection == nullptr) return Error{ECONNRESET, "reject: the peer left before the answer"};
  return connection->reject(private_data);
}

Result<void> Rnic::disconnect(device::ConnectionNumber number) {
  Entry entry(*this);
  Connection* connection = find_connection(number);
  if (connection != nullptr) return connection->disconnect();
  late_ends_.hurry(number);  // who ends it as well has read what it wanted
  return Error{ENOTCONN, "disconnect: the connection is over"};
}

Result<void> Rnic::release(device::ConnectionNumber number) {
  Entry entry(*this);
  if (Connection* connection = find_connection(number)) connection->release();
  late_ends_.forget(number);
  return {};
}

Result<std::uint32_t> Rnic::name_qp(device::QPNumber number) try {
  Entry entry(*this);
  QueuePair* qp = find_qp(number);
  if (qp == nullptr) return Error{EINVAL, "no such QP"};
  return rendezvous_.name(*qp);
} catch (const std::bad_alloc&) {
  return kOutOfMemory;
}

Result<void> Rnic::pair_qp(const device::PairRequest& request) try {
  Entry entry(*this);
  QueuePair* qp = find_qp(request.qp);
  if (qp == nullptr) return Error{EINVAL, "no such QP"};
  return rendezvous_.pair(*qp, request);
} catch (const std::bad_alloc&) {
  return kOutOfMemory;
}

Result<RendezvousHost::Listening> Rnic::listen_anywhere(std::uint64_t cookie) {
  constexpr int kBacklog = 512;
  sockaddr_in6 any = {};
  any.sin6_family = AF_INET6;
  auto slot = begin_listen(transport::Address(reinterpret_cast<const sockaddr*>(&any)), kBacklog,
                           false, cookie);
  if (!slot) {  // a machine without IPv6
    sockaddr_in any4 = {};
    any4.sin_family = AF_INET;
    slot = begin_listen(transport::Address(reinterpret_cast<const sockaddr*>(&any4)), kBacklog,
                        false, cookie);
  }
  if (!slot) return slot.error();
  return Listening{(*slot)->number, (*slot)->listener->local().port()};
}

void Rnic::refuse_connection(device::ConnectionNumber number) {
  // One that is gone needs no answer.
  if (Connection* connection = find_connection(number)) {
    static_cast<void>(connection->reject({}));
  }
}

void Rnic::forget_connection(device::ConnectionNumber number) {
  if (Connection* connection = find_connection(number)) connection->release();
}

void Rnic::fail_unreachable(QueuePair& qp) {
  if (qp.connection != nullptr) qp.connection->abort_setup("the peer was not found in time");
  static_cast<void>(qp.core().fail_unreachable(now_));  // any state can fail
  if (qp.srq() == nullptr) {
    qp.want_receive();
    qp.core().flush(now_);  // a receive that was posted just now
  }
  if (qp.connection != nullptr) qp.connection->serve();  // its stream is about to end
  tell_last_receive(qp);
}

}  // namespace weft::engine

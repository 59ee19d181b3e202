// Who listens where in the in-memory network, and how connections find them.
#include "transport/loopback/loopback_network.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <mutex>
#include <vector>

#include "transport/loopback/loopback_pair.h"

namespace weft::transport {

/// A bound address and the connections that wait there.
struct LoopbackPort {
  Address address;
  bool v6_only = false;
  std::size_t backlog = 1;
  std::deque<std::shared_ptr<LoopbackShared>> waiting;
  Readiness readiness;

  /// Takes connections for `host` at all (any port).
  bool covers(const Address& host) const {
    if (!address.is_any()) {
      return address.same_host(host);
    }
    return address.family() == host.family() || (address.family() == AF_INET6 && !v6_only);
  }
};

/// Threads: any, under `lock`. Streams share the lock; listeners share all of it.
class LoopbackCore {
 public:
  explicit LoopbackCore(const LoopbackOptions& options) : options_(options) {
    options_.buffer_octets = std::max<std::size_t>(options_.buffer_octets, 1);
    options_.emss = std::max<std::size_t>(options_.emss, 128);
  }

  Result<std::unique_ptr<Stream>> connect(const Address& local, const Address& remote);
  Result<std::shared_ptr<LoopbackPort>> listen(const Address& local, const ListenOptions&);
  Result<std::unique_ptr<Stream>> accept(LoopbackPort&);
  void close(const std::shared_ptr<LoopbackPort>&);

 private:
  static constexpr std::uint16_t kEphemeralFirst = 49152;

  bool taken(const Address& address, bool v6_only) const;
  /// 0 when every port of the range is taken.
  std::uint16_t free_port(Address address, bool v6_only);
  LoopbackPort* find(const Address& remote) const;
  Result<Readiness> make_readiness() const {
    return options_.readiness ? Readiness::make() : Readiness();
  }

  LoopbackOptions options_;
  std::shared_ptr<std::mutex> lock_ = std::make_shared<std::mutex>();
  std::vector<std::shared_ptr<LoopbackPort>> ports_;
  std::uint16_t next_port_ = kEphemeralFirst;
};

bool LoopbackCore::taken(const Address& address, bool v6_only) const {
  LoopbackPort wanted;
  wanted.address = address;
  wanted.v6_only = v6_only;
  return std::any_of(ports_.begin(), ports_.end(), [&](const auto& port) {
    return port->address.port() == address.port() &&
           (port->covers(address) || wanted.covers(port->address));
  });
}

std::uint16_t LoopbackCore::free_port(Address address, bool v6_only) {
  for (int tries = 0; tries <= 0xffff - kEphemeralFirst; ++tries) {
    const std::uint16_t port = next_port_;
    next_port_ = port == 0xffff ? kEphemeralFirst : static_cast<std::uint16_t>(port + 1);
    address.set_port(port);
    if (!taken(address, v6_only)) {
      return port;
    }
  }
  return 0;
}

LoopbackPort* LoopbackCore::find(const Address& remote) const {
  LoopbackPort* found = nullptr;
  for (const auto& port : ports_) {
    if (port->address.port() != remote.port() || !port->covers(remote)) {
      continue;
    }
    // A host before "any", and "any" of the same family before the other's.
    const bool better = found == nullptr || !port->address.is_any() ||
                        (found->address.is_any() && port->address.family() == remote.family());
    found = better ? port.get() : found;
  }
  return found;
}

Result<std::unique_ptr<Stream>> LoopbackCore::connect(const Address& local, const Address& remote) {
  if (remote.length() == 0 || (local.length() != 0 && local.family() != remote.family())) {
    return Error{EAFNOSUPPORT, "source and destination must be of one family, IPv4 or IPv6"};
  }
  const std::lock_guard lock(*lock_);
  Address source = local.is_any() ? remote : local;
  source.set_port(local.port());
  if (source.port() == 0) {
    source.set_port(free_port(source, true));
  } else if (taken(source, true)) {
    return Error{EADDRINUSE, "the source port has a listener"};
  }
  if (source.port() == 0) {
    return Error{EADDRNOTAVAIL, "no source port is free"};
  }
  auto shared = std::make_shared<LoopbackShared>(lock_, options_);
  for (int side : {0, 1}) {
    auto readiness = make_readiness();
    if (!readiness) {
      return readiness.error();
    }
    shared->pair.end(side).readiness = std::move(*readiness);
  }
  shared->pair.end(0).local = source;
  shared->pair.end(1).local = remote;
  LoopbackPort* port = find(remote);
  if (port == nullptr || port->waiting.size() >= port->backlog) {
    shared->pair.refuse(1, ECONNREFUSED);
  } else {
    port->waiting.push_back(shared);
    port->readiness.set(true);
  }
  return std::unique_ptr<Stream>(std::make_unique<LoopbackStream>(std::move(shared), 0));
}

Result<std::shared_ptr<LoopbackPort>> LoopbackCore::listen(const Address& local,
                                                           const ListenOptions& options) {
  if (local.length() == 0) {
    return Error{EAFNOSUPPORT, "a listener needs an IPv4 or IPv6 address"};
  }
  const std::lock_guard lock(*lock_);
  Address address = local;
  if (address.port() == 0) {
    address.set_port(free_port(address, options.v6_only));
    if (address.port() == 0) {
      return Error{EADDRINUSE, "no port is free"};
    }
  } else if (taken(address, options.v6_only)) {
    return Error{EADDRINUSE, "the port has another listener"};
  }
  auto readiness = make_readiness();
  if (!readiness) {
    return readiness.error();
  }
  auto port = std::make_shared<LoopbackPort>();
  port->address = address;
  port->v6_only = options.v6_only;
  port->backlog = static_cast<std::size_t>(std::max(options.backlog, 1));
  port->readiness = std::move(*readiness);
  ports_.push_back(port);
  return port;
}

Result<std::unique_ptr<Stream>> LoopbackCore::accept(LoopbackPort& port) {
  const std::lock_guard lock(*lock_);
  if (port.waiting.empty()) {
    return Error{EAGAIN, "no connection waits"};
  }
  auto shared = std::move(port.waiting.front());
  port.waiting.pop_front();
  port.readiness.set(!port.waiting.empty());
  return std::unique_ptr<Stream>(std::make_unique<LoopbackStream>(std::move(shared), 1));
}

void LoopbackCore::close(const std::shared_ptr<LoopbackPort>& port) {
  const std::lock_guard lock(*lock_);
  for (const auto& shared : port->waiting) {
    shared->pair.reset(1);
    shared->pair.destroy(1);
  }
  port->waiting.clear();
  std::erase(ports_, port);
}

namespace {

class LoopbackListener final : public Listener {
 public:
  LoopbackListener(std::shared_ptr<LoopbackCore> core, std::shared_ptr<LoopbackPort> port)
      : core_(std::move(core)), port_(std::move(port)) {}
  ~LoopbackListener() override { core_->close(port_); }

  Result<std::unique_ptr<Stream>> accept() override { return core_->accept(*port_); }
  int fd() const override { return port_->readiness.fd(); }
  Address local() const override { return port_->address; }

 private:
  std::shared_ptr<LoopbackCore> core_;
  std::shared_ptr<LoopbackPort> port_;
};

}  // namespace

LoopbackNetwork::LoopbackNetwork(const LoopbackOptions& options)
    : core_(std::make_shared<LoopbackCore>(options)) {}

LoopbackNetwork::~LoopbackNetwork() = default;

Result<std::unique_ptr<Stream>> LoopbackNetwork::connect(const Address& local,
                                                         const Address& remote) {
  return core_->connect(local, remote);
}

Result<std::unique_ptr<Listener>> LoopbackNetwork::listen(const Address& local,
                                                          const ListenOptions& options) {
  auto port = core_->listen(local, options);
  if (!port) {
    return port.error();
  }
  return std::unique_ptr<Listener>(std::make_unique<LoopbackListener>(core_, std::move(*port)));
}

}  // namespace weft::transport

// QPs that find each other by name and address, as InfiniBand's do (persona ib): no listener and no
// connect call, either side first.
//
// A QP's name is the TCP port of a listener of this process, and an index: unique on the host
// without anybody who hands out names, and all that a peer needs to connect. Of a pair the QP with
// the lower name connects, again and again until its peer looks for it too; the other accepts. What
// they say to each other rides in MPA's private data.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/queue_pair.h"
#include "transport/address.h"

namespace weft::engine {

/// Set in the cookie of every connection and listener that is the rendezvous's own.
inline constexpr std::uint64_t kRendezvousCookie = std::uint64_t{1} << 63;

/// What the rendezvous needs of the engine around it. With the progress lock held, as everything
/// here.
class RendezvousHost {
 public:
  struct Listening {
    device::ListenerNumber number = 0;
    std::uint16_t port = 0;
  };
  /// On a free port of every address.
  virtual Result<Listening> listen_anywhere(std::uint64_t cookie) = 0;
  virtual Result<device::ConnectionNumber> begin_connect(const transport::Address& local,
                                                         const transport::Address& remote,
                                                         const device::ConnectRequest&,
                                                         std::uint64_t cookie) = 0;
  virtual Result<void> accept_for(device::ConnectionNumber, const device::ConnectRequest&,
                                  std::uint64_t cookie) = 0;
  virtual void refuse_connection(device::ConnectionNumber) = 0;
  virtual void forget_connection(device::ConnectionNumber) = 0;
  /// Null: it was destroyed.
  virtual QueuePair* find_qp(device::QPNumber) = 0;
  /// The QP's work has waited for its peer long enough: it fails.
  virtual void fail_unreachable(QueuePair&) = 0;
  /// How long a caller that came before its time is kept.
  virtual Duration early_patience() const = 0;
  virtual Instant now() const = 0;
  virtual void wake_at(Instant) = 0;

 protected:
  ~RendezvousHost() = default;
};

/// Bounds: one listener for 256 QPs; as many early requests as its listener lets wait, each for a
/// while: who really looks for a QP comes again.
/// Threads: the progress lock.
class Rendezvous {
 public:
  explicit Rendezvous(RendezvousHost& host) : host_(host) {}

  /// See device::Device::name_qp and pair_qp.
  Result<std::uint32_t> name(QueuePair&);
  Result<void> pair(QueuePair&, const device::PairRequest&);
  void set_patience(QueuePair&, const device::PairPatience&);
  /// Ends the search, and the wait for a peer that left; the name stays.
  void stop_search(QueuePair&);
  /// The QP is being destroyed.
  void forget(QueuePair&);

  /// The QP with this name, or null.
  QueuePair* find(std::uint32_t name);

  /// Work may be waiting on a QP that is still looking, or whose peer has left: if so, its patience
  /// counts from now on.
  void handle_work(QueuePair&);
  /// Of a connection or listener with our cookie. Only noted, because the connection that reports
  /// is in the middle of its work; settle() acts.
  void note(const device::ConnectionEvent&);
  void settle();
  bool settled() const { return noted_.empty(); }
  std::optional<Instant> deadline() const;
  void handle_timeouts();

 private:
  static constexpr std::size_t kNamesPerPort = 256;

  struct Port {
    RendezvousHost::Listening listening;
    std::array<QueuePair*, kNamesPerPort> users{};
    std::size_t used = 0;
    std::size_t next = 0;  ///< names are given out again as late as possible
  };
  /// Who is called, and by whom.
  struct Hello {
    std::uint32_t target = 0, source = 0;
    static constexpr std::size_t kOctets = 16;
    std::array<std::uint8_t, kOctets> encode() const;
    static std::optional<Hello> parse(Octets);
  };
  struct Noted {
    device::ConnectionEventKind kind;
    device::ConnectionNumber connection;
    std::uint64_t cookie;
    std::optional<Hello> hello;
    transport::Address peer;
  };
  /// A request for a QP that does not look for its peer yet.
  struct Early {
    device::ConnectionNumber connection;
    Hello hello;
    transport::Address peer;
    Instant until;
  };
  /// A QP with work for a peer that left.
  struct Missing {
    QueuePair* qp = nullptr;
    Instant give_up;
  };
  /// A QP that looks for its peer.
  struct Search {
    QueuePair* qp = nullptr;
    std::uint32_t peer = 0;
    transport::Address local, remote;
    device::ConnectRequest request;
    bool connects = false;
    device::ConnectionNumber connection = 0;  ///< the attempt under way
    std::optional<Instant> next_attempt;
    Duration pause{};
    std::optional<Instant> give_up;
  };

  Result<Port*> port_with_room();
  void attempt(Search&);
  void accept(Search&, device::ConnectionNumber);
  void handle_request(const Noted&);
  void handle_failure(const Noted&);
  void miss(QueuePair&);
  bool fits(const Search&, const Hello&, const transport::Address& peer) const;
  static device::QPNumber qp_of(std::uint64_t cookie);
  Search* search_of(std::uint64_t cookie);

  RendezvousHost& host_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<Early> early_;
  std::unordered_map<device::QPNumber, Search> searches_;
  std::unordered_map<device::QPNumber, Missing> missing_;
  std::vector<Noted> noted_;
};

}  // namespace weft::engine

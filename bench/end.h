// One end of a work over one medium, as the loop that measures sees it.
#pragma once

#include <memory>
#include <string>

#include "bench/control.h"
#include "bench/work.h"

namespace weft::bench {

enum class Role { Leader, Follower };

/// Calls are `lead` or `follow`, with the same leg at both ends; what both need to tell each other
/// goes over the Control given when the end was made. Every call throws Failure. Single-threaded.
class End {
 public:
  virtual ~End() = default;

  /// The measured side. Time runs until the last octet is known to have arrived at the other end.
  virtual Sample lead(const Leg& leg) = 0;
  virtual void follow(const Leg& leg) = 0;
};

/// What an end is made from. Each end has a port of its own: the follower listens on a free one and
/// tells it by control; the leader connects.
struct Place {
  Role role;
  std::string address;  ///< numeric, without a port
  Control& control;
};

/// `connections` of them are open from here on.
std::unique_ptr<End> make_requests_tcp(const Place& place, std::uint64_t connections);
std::unique_ptr<End> make_requests_rdma(const Place& place, std::uint64_t connections);
std::unique_ptr<End> make_connect_tcp(const Place& place);
std::unique_ptr<End> make_connect_rdma(const Place& place);
std::unique_ptr<End> make_idle_rdma(const Place& place);
std::unique_ptr<End> make_beside_tcp(const Place& place);
std::unique_ptr<End> make_beside_rdma(const Place& place);
std::unique_ptr<End> make_mixed_tcp(const Place& place);
std::unique_ptr<End> make_mixed_rdma(const Place& place);

}  // namespace weft::bench

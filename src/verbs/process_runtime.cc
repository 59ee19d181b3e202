// Starts the device, survives forks, hands out events.
#include "verbs/process_runtime.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "verbs/cookie.h"
#include "verbs/cq.h"
#include "verbs/device_factory.h"
#include "verbs/qp.h"
#include "verbs/srq.h"

namespace weft::verbs {

ProcessRuntime& ProcessRuntime::instance() {
  // In storage that no destructor visits.
  alignas(ProcessRuntime) static std::byte storage[sizeof(ProcessRuntime)];
  static ProcessRuntime* const runtime = new (storage) ProcessRuntime;
  return *runtime;
}

ProcessRuntime::ProcessRuntime() {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

// The locks are taken across a fork, so that the child's copies are of a moment when nobody was
// inside; fork runs these handlers in the thread that unlocks them again on both sides.
void ProcessRuntime::before_fork() {
  instance().device_lock_.lock();
  instance().lock_.lock();
}

void ProcessRuntime::after_fork_in_parent() {
  instance().lock_.unlock();
  instance().device_lock_.unlock();
}

void ProcessRuntime::after_fork_in_child() {
  ProcessRuntime& self = instance();
  // Its threads did not come along and its locks may be held by them: not even its destructor may
  // run. The memory is the price of a fork.
  self.started_device_.store(nullptr, std::memory_order_relaxed);
  if (self.device_.release() != nullptr) {
    self.generation_.fetch_add(1, std::memory_order_relaxed);
  }
  self.lock_.unlock();
  self.device_lock_.unlock();
}

const Interface* ProcessRuntime::remember(const Interface& seen) {
  const auto found = std::find(seen_interfaces_.begin(), seen_interfaces_.end(), seen);
  return found != seen_interfaces_.end() ? &*found : &seen_interfaces_.emplace_back(seen);
}

const Interface* ProcessRuntime::remember(const InterfaceScan& scan, unsigned index) {
  for (const Interface& interface : scan.interfaces) {
    if (interface.index == index) return remember(interface);
  }
  return nullptr;
}

std::span<const Interface* const> ProcessRuntime::interfaces() {
  const InterfaceScan scan = scan_interfaces();
  std::lock_guard guard(lock_);
  std::vector<const Interface*> list;
  list.reserve(scan.interfaces.size());
  for (const Interface& interface : scan.interfaces) list.push_back(remember(interface));
  const auto found = std::find(seen_lists_.begin(), seen_lists_.end(), list);
  return found != seen_lists_.end() ? *found : seen_lists_.emplace_back(std::move(list));
}

const Interface* ProcessRuntime::interface_of(const sockaddr* local) {
  {
    std::lock_guard guard(lock_);
    if (const unsigned index = index_with_address(recent_scan().addresses, local)) {
      return remember(recent_scan_, index);
    }
  }
  // Not to be seen, or not yet: look closely.
  const InterfaceScan scan = scan_interfaces();
  unsigned index = index_with_address(scan.addresses, local);
  sockaddr_storage source;
  if (index == 0 && source_address_for(local, &source)) {
    index = index_with_address(scan.addresses, reinterpret_cast<const sockaddr*>(&source));
  }
  std::lock_guard guard(lock_);
  return remember(scan, index);
}

/// A server asks for every connection it accepts, and a scan costs as much as several of those.
const InterfaceScan& ProcessRuntime::recent_scan() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  const std::int64_t now_ms = std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
  if (now_ms >= recent_until_ms_) {
    recent_scan_ = scan_interfaces();
    recent_until_ms_ = now_ms + kRecentMs;
  }
  return recent_scan_;
}

const Interface* ProcessRuntime::interface_named(const char* name) {
  for (const Interface* interface : interfaces()) {
    if (std::strcmp(interface->name, name) == 0) return interface;
  }
  return nullptr;
}

std::vector<InterfaceAddress> ProcessRuntime::addresses(unsigned index) {
  std::vector<InterfaceAddress> all = scan_interfaces().addresses;
  std::erase_if(all, [&](const InterfaceAddress& address) { return address.index != index; });
  return all;
}

Result<device::Device*> ProcessRuntime::device() {
  std::lock_guard guard(device_lock_);
  if (device_ != nullptr) return device_.get();
  std::string message;
  auto made = make_device(*this, &message);
  if (!made) return say_once(made.error().code, std::move(message));
  device_ = std::move(*made);
  started_device_.store(device_.get(), std::memory_order_release);
  return device_.get();
}

Result<void> ProcessRuntime::check_settings() {
  std::lock_guard guard(device_lock_);
  std::string message;
  const Result<void> settings = verbs::check_settings(&message);
  if (!settings) return say_once(settings.error().code, std::move(message));
  return {};
}

/// Once: programs try every device of the list, and fail on each.
Error ProcessRuntime::say_once(int code, std::string message) {
  auto known = std::find(messages_.begin(), messages_.end(), message);
  if (known == messages_.end()) {
    std::fprintf(stderr, "%s\n", message.c_str());
    known = messages_.insert(messages_.end(), std::move(message));
  }
  return Error{code, known->c_str()};
}

device::QPNumber ProcessRuntime::qp_number(const void* ibv_qp) {
  return qp_number_of_ != nullptr && ibv_qp != nullptr ? qp_number_of_(ibv_qp) : 0;
}

void ProcessRuntime::handle_completion_event(std::uint64_t cq_cookie) {
  CQ& cq = *from_cookie<CQ>(cq_cookie);
  if (cq.channel() != nullptr) cq.channel()->notify(cq.completion_events());
}

void ProcessRuntime::handle_async_event(const device::AsyncEvent& event) {
  switch (event.kind) {
    case device::AsyncEventKind::CQError: {
      CQ& cq = *from_cookie<CQ>(event.cookie);
      cq.async().notify(cq.async_events(), event.kind);
      return;
    }
    case device::AsyncEventKind::SRQLimit: {
      SRQ& srq = *from_cookie<SRQ>(event.cookie);
      srq.handle_limit_reached();
      srq.async().notify(srq.async_events(), event.kind);
      return;
    }
    case device::AsyncEventKind::QPFatal:
    case device::AsyncEventKind::QPRequestError:
    case device::AsyncEventKind::QPAccessError:
    case device::AsyncEventKind::LastReceive:
    case device::AsyncEventKind::SendsDrained: {
      QP& qp = *from_cookie<QP>(event.cookie);
      qp.async().notify(qp.async_events(), event.kind);
      return;
    }
  }
}

void ProcessRuntime::handle_connection_event(const device::ConnectionEvent& event) {
  ConnectionEvents* receiver = connection_events_.load(std::memory_order_acquire);
  if (receiver != nullptr) receiver->handle_connection_event(event);
}

}  // namespace weft::verbs

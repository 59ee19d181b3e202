// The process's Runtime: finds the interfaces, starts the device when it is first needed, and hands
// what the device reports to whom it concerns.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "verbs/interfaces.h"
#include "verbs/runtime.h"

namespace weft::verbs {

/// Never destroyed: the engine's threads may outlive main().
///
/// fork: the child gets a runtime without a device, whatever the parent had, and makes its own when
/// it needs one. What the parent opened is not the child's (its connections have one end here, not
/// two); generation() tells the objects of before from those of after.
///
/// Threads: any.
class ProcessRuntime final : public Runtime, private device::Events {
 public:
  /// The only one.
  static ProcessRuntime& instance();

  std::uint32_t abi_version() const override { return kABIVersion; }
  std::span<const Interface* const> interfaces() override;
  /// What it says of an address that stays where it is may be a tenth of a second old.
  const Interface* interface_of(const sockaddr* local) override;
  Result<device::Device*> device() override;
  /// The device, if it was started in this process.
  device::Device* started_device() const { return started_device_.load(std::memory_order_acquire); }
  /// Are the WEFT_* settings such that device() can do as they say? If not: EINVAL, and the
  /// sentence, which is said on stderr the first time. Starts nothing.
  Result<void> check_settings();
  void set_connection_events(ConnectionEvents* receiver) override {
    connection_events_.store(receiver, std::memory_order_release);
  }
  device::QPNumber qp_number(const void* ibv_qp) override;
  Numbers numbers() const override { return numbers_.load(std::memory_order_relaxed); }
  /// Of those that are made from now on.
  void set_numbers(Numbers numbers) { numbers_.store(numbers, std::memory_order_relaxed); }

  /// The front's half of qp_number: it alone knows what an ibv_qp is.
  using QPNumberOf = device::QPNumber (*)(const void* ibv_qp);
  void set_qp_number_of(QPNumberOf function) { qp_number_of_ = function; }

  /// The addresses of an interface now: IPv4, then IPv6.
  std::vector<InterfaceAddress> addresses(unsigned index);
  /// The interface with that device name now, or null.
  const Interface* interface_named(const char* name);

  /// Counts the forks between us and the first process.
  std::uint32_t generation() const { return generation_.load(std::memory_order_relaxed); }

 private:
  ProcessRuntime();

  void handle_completion_event(std::uint64_t cq_cookie) override;
  void handle_async_event(const device::AsyncEvent& event) override;
  void handle_connection_event(const device::ConnectionEvent& event) override;

  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();

  // With lock_ held.
  const Interface* remember(const Interface& seen);
  const Interface* remember(const InterfaceScan& scan, unsigned index);  ///< null: not in it
  const InterfaceScan& recent_scan();
  Error say_once(int code, std::string message);

  std::atomic<Numbers> numbers_{Numbers::Lowest};

  std::mutex lock_;
  /// Every interface in every state it was seen in, and every list of them that was handed out:
  /// they stay valid for ever, and what was seen before is not stored again.
  std::deque<Interface> seen_interfaces_;
  std::deque<std::vector<const Interface*>> seen_lists_;
  static constexpr std::int64_t kRecentMs = 100;
  InterfaceScan recent_scan_;
  std::int64_t recent_until_ms_ = 0;

  std::mutex device_lock_;
  std::unique_ptr<device::Device> device_;
  std::atomic<device::Device*> started_device_{nullptr};  ///< device_, for who has no lock
  std::deque<std::string> messages_;                      ///< texts of errors given out

  std::atomic<std::uint32_t> generation_{0};
  std::atomic<ConnectionEvents*> connection_events_{nullptr};
  QPNumberOf qp_number_of_ = nullptr;
};

}  // namespace weft::verbs

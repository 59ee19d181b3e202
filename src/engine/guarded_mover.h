// core::Mover over this process's memory, where a registered page may have been unmapped: such an
// access gives false instead of a crash.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/host.h"
#include "engine/recent_places.h"
#include "engine/store_habit.h"

namespace weft::engine {

/// Touches registered memory only inside a guard: a SIGSEGV or SIGBUS whose address lies in the
/// guarded range jumps back and the call returns false. Faults outside any guard go to the handler
/// that was there before ours, or to the default action.
/// Threads: any; the guard is per thread.
class GuardedMover final : public core::Mover {
 public:
  /// Puts our fault handler in front if it is not there. Called at start and at every
  /// registration, because a program may install its own handler at any time.
  static void install_handler();

  std::uint32_t crc_extend(std::uint32_t state, Octets data) override;
  bool crc_registered(std::uint32_t* state, const std::uint8_t* source,
                      std::size_t octets) override;
  bool fetch(std::uint8_t* target, const std::uint8_t* source, std::size_t octets,
             std::uint32_t* state, core::ReadBy) override;
  bool place(std::uint8_t* target, Octets source, std::uint32_t* state) override;
  /// One atomic instruction of the CPU: indivisible against all threads and processes too, as long
  /// as they use such, too.
  bool update(std::uint8_t* target, const core::AtomicChange& change,
              std::uint64_t* original) override;

 private:
  /// What was sent last was in no cache, by the time that its CRC took; so what is sent next will
  /// not be.
  std::atomic<bool> sends_cold_{false};
  RecentPlaces recent_places_;
  StoreHabit stores_, summed_stores_;  ///< with a CRC it takes longer
};

}  // namespace weft::engine

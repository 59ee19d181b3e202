// The memory of one end: regions between guards, in two zones with one writer each.
#pragma once

#include <cstdint>
#include <vector>

#include "core/memory/memory_table.h"
#include "transport/fault/random.h"

namespace weft::sim {

using transport::Random;
using Bytes = std::vector<std::uint8_t>;

/// Each zone is written by one ordered sequence of operations, which is what makes its content
/// predictable at every moment.
enum class Zone : std::uint8_t {
  Home,   ///< what this end sends from and reads into: only its own Reads write here
  Front,  ///< what this end offers, and its receive buffers: only the peer's messages write here
};

struct Region {
  Zone zone = Zone::Home;
  std::size_t begin = 0;  ///< in its zone
  std::uint32_t octets = 0;
  std::uint32_t access = 0;
  core::PD pd;
  core::StreamId stream;  ///< set before seal(): tied to that end's stream
  std::uint64_t base_to = 0;  ///< fixed by the kind of region: its address, 0, or anything
  bool base_is_address = true;
  STag stag;
  bool windows_only = false;  ///< the peer gets at it through windows alone
  bool deregistered = false;
  bool revoked = false;  ///< deregistered or invalidated: from then on it equals `frozen`
  Bytes frozen;
};

/// A memory window, and what it must be by what was seen of it.
struct Window {
  enum class State : std::uint8_t {
    Unbound,
    Binding,  ///< posted; bound or not
    Open,     ///< the bind completed: the peer is let in
    Closing,  ///< its end is posted; open or not
    Shut,     ///< its end was seen: nobody is let in any more
  } state = State::Unbound;
  core::WindowKind kind = core::WindowKind::Type2;
  std::size_t region = 0;
  std::uint32_t offset = 0, octets = 0;  ///< in its region
  std::uint32_t access = 0;
  std::uint8_t key = 0;  ///< to be bound under, another than the first one
  STag allocated, bound;
};

/// A run of octets of one region.
struct Run {
  std::size_t region = 0;
  std::uint32_t offset = 0;
  std::uint32_t octets = 0;
};

/// Grows while the work is drawn; seal() registers the regions, after which nothing moves.
class Arena {
 public:
  explicit Arena(Random& random) : random_(random) { guard(Zone::Home), guard(Zone::Front); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// A new region behind a guard; returns its index.
  std::size_t add(Zone, std::uint32_t octets, std::uint32_t access, core::PD);
  /// A window onto a part of a region, which is made fit for it; returns its index.
  std::size_t add_window(Window);
  void seal(core::MemoryTable&);
  void deregister_all(core::MemoryTable&);

  Window& window(std::size_t index) { return windows_[index]; }
  const Window& window(std::size_t index) const { return windows_[index]; }
  std::size_t window_count() const { return windows_.size(); }
  /// Nobody is let in through it any more; with its last window the region is taken back, too.
  void shut(std::size_t window);
  /// The tagged offset of a run inside of that window, for the peer.
  std::uint64_t to(const Run& run, std::size_t window) const;
  core::WindowBinding binding(std::size_t window) const;
  /// Does an open window show all of these octets, with all of these rights?
  bool shows(const Region&, const std::uint8_t* address, std::size_t octets, std::uint32_t access);

  Region& region(std::size_t index) { return regions_[index]; }
  const Region& region(std::size_t index) const { return regions_[index]; }
  std::size_t region_count() const { return regions_.size(); }
  Bytes& memory(Zone zone) { return zone == Zone::Home ? home_ : front_; }
  std::uint8_t* address(std::size_t region) {
    return memory(regions_[region].zone).data() + regions_[region].begin;
  }
  std::uint64_t to(const Run& run) const { return regions_[run.region].base_to + run.offset; }
  /// Where a run starts in its zone.
  std::size_t place(const Run& run) const { return regions_[run.region].begin + run.offset; }

  /// The valid region that holds all of these octets, or null.
  const Region* holder(const std::uint8_t* address, std::size_t octets);
  /// The region was taken back: remembers what it holds.
  void revoke(std::size_t region);
  /// A region that changed after it was revoked, or null.
  const Region* changed_after_revocation();

 private:
  void guard(Zone);

  Random& random_;
  Bytes home_, front_;
  std::vector<Region> regions_;
  std::vector<Window> windows_;
};

}  // namespace weft::sim

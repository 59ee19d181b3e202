// Drawing one end's operations, whose effects are known beforehand.
#pragma once

#include <optional>
#include <vector>

#include "tests/sim/workload.h"

namespace weft::sim {

bool percent(Random& random, std::uint32_t of_hundred);

/// Draws the operations of one end, in posting order.
///
/// The result is predictable because of RDMAP's ordering rules alone: messages of one direction
/// take effect in order, and Reads fetch what earlier Writes wrote. Where those rules promise
/// nothing (a Write over what an earlier Read may not have fetched yet, a Send from what an earlier
/// Read may not have filled yet), a read fence goes in.
///
/// Windows make the ends wait for each other: who uses one has to know that it is bound, and who
/// closes one that it is not used any more. Each end therefore binds its windows in its head, uses
/// the peer's in its body, and closes what is left in its tail: nobody waits in a circle.
///
/// Calls match `write_head write_body write_tail`, each for both ends before the next.
class Author {
 public:
  Author(const Settings& settings, std::size_t end, Random& random, Arena& own, Arena& peer);

  void write_head();
  void write_body(Author& peer);
  std::vector<Operation> write_tail();

 private:
  /// A window of ours as both authors see it.
  struct BoundWindow {
    std::size_t index;     ///< in our arena
    std::size_t bind = 0;  ///< the operation that binds it
    bool victim = false;   ///< kept for the illegal request
    bool used = false;
    bool closed = false;                     ///< by the peer, or promised to be used no more
    std::optional<std::size_t> released_by;  ///< the peer's Send behind its last use
  };

  static constexpr std::uint32_t kOffered =
      core::kLocalWrite | core::kRemoteWrite | core::kRemoteRead | core::kRemoteAtomic;

  struct OpenRead {
    Run source, sink;
  };

  // author.cc
  std::uint32_t draw_octets(std::uint32_t max);
  std::uint32_t message_max() const;
  Run draw_run(const Arena& arena, std::size_t region, std::uint32_t octets);
  /// The payload: inline, or gathered from 0 to send_sges runs.
  void draw_payload(Operation& operation, std::uint32_t octets);
  /// Adds the fence that the ordering rules make necessary, or for no reason at all.
  void finish(Operation operation);
  void draw_write();
  void draw_send();
  void draw_read();
  /// The address has to be a multiple of 8, plus `off`.
  Run draw_target(std::size_t region, std::uint32_t off = 0);
  std::uint64_t draw_bits();
  void draw_operands(Operation& operation);
  void draw_atomic();
  void draw_write_immediate();
  void draw_send_immediate();
  void draw_immediate();
  void draw_legal();

  // author_windows.cc
  /// Onto a region of its own, or the one before it.
  void draw_window();
  void add_window(Window window);
  void mean_window(Operation& operation, BoundWindow& window);
  Run draw_run_in(const Window& window, std::uint32_t octets);
  /// A Write, Read or atomic through a window of the peer's, or its end. False: there is none.
  bool draw_window_use();
  /// Behind all uses: the window is invalidated, or its owner is told that it may close it.
  void draw_window_end(BoundWindow& bound);
  /// A Write to a region of the peer's, then a Send that invalidates it.
  void draw_send_invalidate();
  /// A Write from a region of ours, which is invalidated once all before it is done.
  void draw_local_invalidate();
  /// A Read that invalidates its sink.
  void draw_read_invalidate();

  // author_illegal.cc
  /// The one that the illegal request is about: smaller than its region at both ends.
  void draw_victim();
  BoundWindow& victim(std::vector<BoundWindow>& windows);
  std::uint32_t special_octets();
  void draw_illegal();
  void draw_illegal_use(Operation& operation, const Run& local);
  void draw_illegal_window(Operation& operation);

  const Settings& settings_;
  std::size_t end_;
  Random& random_;
  Arena& own_;
  Arena& peer_;
  core::PD pd_, peer_pd_;
  std::vector<std::size_t> home_, offered_;
  std::size_t source_only_, read_only_, write_only_, foreign_;
  std::vector<BoundWindow> windows_;
  std::vector<BoundWindow>* peer_windows_ = nullptr;
  std::vector<OpenRead> open_reads_;
  std::vector<Operation> operations_;
};

}  // namespace weft::sim

// One end: a core QP, its memory, and what an engine does with them between transport and core.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/mpa/startup.h"
#include "core/qp/qp.h"
#include "tests/sim/arena.h"
#include "tests/sim/queues.h"
#include "tests/sim/settings.h"
#include "tests/sim/verdict.h"
#include "transport/transport.h"

namespace weft::sim {

/// Moves octets with memcpy and holds Check::Placement.
class ArenaMover final : public core::Mover {
 public:
  ArenaMover(Verdict& verdict, const char* end) : verdict_(verdict), end_(end) {}
  void use(Arena& arena) { arena_ = &arena; }

  std::uint32_t crc_extend(std::uint32_t state, Octets data) override;
  bool crc_registered(std::uint32_t* state, const std::uint8_t* source,
                      std::size_t octets) override;
  bool fetch(std::uint8_t* target, const std::uint8_t* source, std::size_t octets,
             std::uint32_t* state, core::ReadBy) override;
  bool place(std::uint8_t* target, Octets source, std::uint32_t* state) override;
  bool update(std::uint8_t* target, const core::AtomicChange&, std::uint64_t* original) override;

 private:
  /// `access`: what a window has to allow, if the region is seen through windows only.
  void check(const char* what, const std::uint8_t* address, std::size_t octets, bool write,
             std::uint32_t access);

  Verdict& verdict_;
  const char* end_;
  Arena* arena_ = nullptr;
};

enum class Phase : std::uint8_t { Unconnected, Connecting, Startup, Streaming, Over };

class Endpoint {
 public:
  Endpoint(const Settings&, std::size_t end, Verdict&, CompletionSink&, Random&);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  void begin_round(Arena&);
  /// Initiator: it is connecting. Responder: it was accepted.
  void use_stream(std::unique_ptr<transport::Stream>);
  /// The initiator's second try, with revision 1.
  void downgrade() { startup_config_.revision = 1, startup_config_.peer_to_peer = false; }

  /// Everything that can be done now. True if anything moved.
  bool turn();
  std::optional<Instant> deadline() const;
  /// Work was posted to queues().
  void handle_posted();
  void deregister(std::size_t region);
  /// Those tied to the QP must be unbound, the others as they were.
  void check_windows_after_reset();
  void change_emss(std::size_t emss);
  void act(Manner);
  /// The program gives up: modify Error.
  void abandon();

  const char* name() const { return name_; }
  Phase phase() const { return phase_; }
  core::QP& qp() { return *qp_; }
  const core::QP& qp() const { return *qp_; }
  Queues& queues() { return queues_; }
  core::MemoryTable& table() { return *table_; }
  bool held_back() const { return held_back_; }
  bool connected() const { return stream_ != nullptr; }
  bool established() const { return established_; }
  bool wants_revision_1() const { return wants_revision_1_; }
  bool noticed(core::QPNotice::Kind kind) const {
    return (noticed_ >> static_cast<unsigned>(kind) & 1u) != 0;
  }
  /// Nothing of ours is under way: all completed, all sent, nothing half received.
  bool quiet() const;
  /// Has octets of this memory still to be taken by the transport, from where they lie?
  bool batch_references(const std::uint8_t* address, std::size_t octets) const;
  std::uint64_t octets_sent() const { return octets_sent_; }
  std::uint64_t octets_consumed() const { return octets_consumed_; }

 private:
  void advance_startup();
  void handle_startup_events();
  bool send_control();
  bool receive_some();
  void offer();
  core::Received offer_parts();
  std::optional<core::Received> offer_landed();
  bool transmit();
  bool send_batch();
  void drop_batch();
  void drain();
  bool check_deregistration(std::size_t region);
  void check_reads();
  void end_stream();

  const Settings& settings_;
  const EndSettings& own_;
  const std::size_t end_;
  const char* name_;
  Verdict& verdict_;
  Random& random_;
  ArenaMover mover_;
  Queues queues_;
  Arena* arena_ = nullptr;
  std::vector<std::uint8_t> table_storage_, qp_storage_;
  std::optional<core::MemoryTable> table_;
  std::optional<core::QP> qp_;

  core::StartupConfig startup_config_;
  std::optional<core::Startup> startup_;
  std::unique_ptr<transport::Stream> stream_;
  Phase phase_ = Phase::Unconnected;
  Bytes control_;  // startup octets not sent yet
  Bytes arrived_;  // not consumed yet
  std::size_t wanted_ = 0;
  Bytes scratch_;  // what receive() fills
  Bytes staging_;
  std::vector<core::Piece> pieces_;
  std::size_t piece_count_ = 0;
  std::size_t batch_octets_ = 0, batch_sent_ = 0;
  bool held_back_ = false, established_ = false, wants_revision_1_ = false;
  bool fin_sent_ = false, peer_closed_ = false;
  bool llp_told_ = false;  // the core knows that the stream is lost
  unsigned noticed_ = 0;
  std::uint64_t octets_moved_ = 0;  // in and out, startup included
  std::uint64_t octets_sent_ = 0, octets_consumed_ = 0;
};

}  // namespace weft::sim

// The work queues of one QP, and the watch over how each work request ends.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "core/host.h"
#include "tests/sim/verdict.h"
#include "tests/sim/workload.h"

namespace weft::sim {

/// Hears of every completion, after it was found to be in order.
class CompletionSink {
 public:
  virtual void handle_completion(const core::Completion&) = 0;

 protected:
  ~CompletionSink() = default;
};

/// Holds Check::Completions and Check::Status. What it lends lives exactly as long as host.h
/// promises, so that AddressSanitizer sees any later use.
class Queues final : public core::WorkQueues {
 public:
  Queues(Verdict& verdict, CompletionSink& sink, const char* end, bool shared_receives)
      : verdict_(verdict), sink_(sink), end_(end), shared_(shared_receives) {}

  void post_send(const core::SendWR&, std::vector<core::SGE>, Bytes inline_data);
  void post_receive(std::uint64_t id, std::vector<core::SGE>);
  /// A new stream begins: what a shared queue still holds is forgotten, statuses start afresh.
  void begin_round();

  bool receive_pending() const { return !receives_.empty(); }
  /// Sends posted and not completed.
  std::size_t sends_left() const { return sends_.size() + open_sends_.size(); }
  std::size_t receives_open() const { return open_receives_.size(); }
  /// After the end of a stream: everything posted has completed.
  void check_all_completed();

  // core::WorkQueues
  bool take_send(core::SendWR&) override;
  bool send_pending() const override { return !sends_.empty(); }
  bool take_receive(core::ReceiveWR&) override;
  bool take_receive_to_flush(core::ReceiveWR& wr) override { return !shared_ && take_receive(wr); }
  void complete(const core::Completion&) override;

 private:
  struct Entry {
    core::SendWR wr;  // of a receive: only the id
    std::vector<core::SGE> sges;
    std::unique_ptr<Bytes> inline_data;
    wire::AtomicOperands operands;
    core::WindowBinding binding;
  };
  /// One queue's progress from success to flushing.
  struct Line {
    const char* name;
    bool failed = false;  ///< something did not succeed
  };
  void check_status(const core::Completion&, Line&);
  void fail(Check, const char* what, std::uint64_t id);

  Verdict& verdict_;
  CompletionSink& sink_;
  const char* end_;
  bool shared_;
  std::deque<Entry> sends_, receives_, open_sends_, open_receives_;
  Line send_line_{"send queue"}, receive_line_{"receive queue"};
  bool guilty_seen_ = false;
  std::vector<core::SGE> lent_send_, lent_receive_;
  std::unique_ptr<wire::AtomicOperands> lent_operands_;
  std::unique_ptr<core::WindowBinding> lent_binding_;
};

const char* name(core::WorkStatus);

}  // namespace weft::sim

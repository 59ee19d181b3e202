// Lending work requests and watching how they end.
#include "tests/sim/queues.h"

#include <string>

#include "tests/sim/work_request.h"

namespace weft::sim {

using core::Completion;
using core::WorkOpcode;
using core::WorkStatus;

void Queues::fail(Check check, const char* what, std::uint64_t id) {
  verdict_.fail(check, std::string(end_) + ": " + what + ", WR " + std::to_string(id));
}

void Queues::post_send(const core::SendWR& wr, std::vector<core::SGE> sges, Bytes inline_data) {
  Entry entry{wr, std::move(sges), std::make_unique<Bytes>(std::move(inline_data)), {}, {}};
  if (wr.operands != nullptr) entry.operands = *wr.operands;
  if (wr.binding != nullptr) entry.binding = *wr.binding;
  sends_.push_back(std::move(entry));
}

void Queues::post_receive(std::uint64_t id, std::vector<core::SGE> sges) {
  Entry entry;
  entry.wr.id = id;
  entry.sges = std::move(sges);
  receives_.push_back(std::move(entry));
}

void Queues::begin_round() {
  receives_.clear();
  send_line_.failed = receive_line_.failed = guilty_seen_ = false;
}

bool Queues::take_send(core::SendWR& wr) {
  if (sends_.empty()) return false;
  Entry& entry = sends_.front();
  lent_send_ = std::vector<core::SGE>(entry.sges);
  wr = entry.wr;
  wr.sges = lent_send_;
  lent_operands_ = std::make_unique<wire::AtomicOperands>(entry.operands);
  if (wr.operands != nullptr) wr.operands = lent_operands_.get();
  lent_binding_ = std::make_unique<core::WindowBinding>(entry.binding);
  if (wr.binding != nullptr) wr.binding = lent_binding_.get();
  wr.inline_data = *entry.inline_data;
  open_sends_.push_back(std::move(entry));
  sends_.pop_front();
  return true;
}

bool Queues::take_receive(core::ReceiveWR& wr) {
  if (receives_.empty()) return false;
  Entry& entry = receives_.front();
  lent_receive_ = std::vector<core::SGE>(entry.sges);
  wr = {entry.wr.id, lent_receive_};
  open_receives_.push_back(std::move(entry));
  receives_.pop_front();
  return true;
}

void Queues::complete(const Completion& completion) {
  const bool receive = completion.opcode == WorkOpcode::Receive;
  if (verdict_.breaks_once("drop-completion")) return;
  std::deque<Entry>& open = receive ? open_receives_ : open_sends_;
  if (open.empty())
    return fail(Check::Completions, "completed, but nothing is open", completion.id);
  if (open.front().wr.id != completion.id) {
    return fail(Check::Completions, "completed out of order or twice", completion.id);
  }
  if (!receive && open.front().wr.opcode != completion.opcode) {
    fail(Check::Completions, "completed with another opcode", completion.id);
  }
  if (!receive && completion.signaled !=
                      (open.front().wr.signaled || completion.status != WorkStatus::Success)) {
    fail(Check::Completions, "signalled, or not, against its wish", completion.id);
  }
  open.pop_front();
  verdict_.trace("%s: WR %llu (%s) ends: %s", end_, static_cast<unsigned long long>(completion.id),
                 name(completion.opcode), name(completion.status));
  Completion seen = completion;
  if (verdict_.breaks_once("flushed-in-peace")) seen.status = WorkStatus::Flushed;
  if (seen.with != Completion::With::Nothing) {
    if (verdict_.breaks_once("immediate-wrong")) seen.immediate.value ^= std::uint64_t{1} << 40;
    if (verdict_.breaks_once("immediate-unsaid")) seen.with = Completion::With::Nothing;
  }
  check_status(seen, receive ? receive_line_ : send_line_);
  sink_.handle_completion(seen);
  if (verdict_.breaks_once("repeat-completion")) complete(completion);
}

void Queues::check_status(const Completion& completion, Line& line) {
  if (completion.status == WorkStatus::Success) {
    if (line.failed) fail(Check::Status, "succeeded behind a failure", completion.id);
    return;
  }
  line.failed = true;
  const bool pretends = verdict_.breaks("second-guilty");
  if (completion.status == WorkStatus::Flushed && !pretends) return;
  if (guilty_seen_) fail(Check::Status, "a second guilty one", completion.id);
  guilty_seen_ = true;
}

void Queues::check_all_completed() {
  if (!sends_.empty() || !open_sends_.empty()) {
    const Entry& entry = open_sends_.empty() ? sends_.front() : open_sends_.front();
    fail(Check::Completions, "the stream is over and a send queue entry never completed",
         entry.wr.id);
  }
  if (!open_receives_.empty()) {
    fail(Check::Completions, "the stream is over and a receive never completed",
         open_receives_.front().wr.id);
  }
  if (!shared_ && !receives_.empty()) {
    fail(Check::Completions, "the stream is over and a receive was not flushed",
         receives_.front().wr.id);
  }
}

const char* name(WorkStatus status) {
  switch (status) {
    case WorkStatus::Success:
      return "success";
    case WorkStatus::LocalLength:
      return "local length error";
    case WorkStatus::LocalQPOperation:
      return "local QP operation error";
    case WorkStatus::LocalProtection:
      return "local protection error";
    case WorkStatus::Flushed:
      return "flushed";
    case WorkStatus::BadResponse:
      return "bad response";
    case WorkStatus::RemoteAccess:
      return "remote access error";
    case WorkStatus::RemoteOperation:
      return "remote operation error";
    case WorkStatus::RemoteInvalidRequest:
      return "remote invalid request";
    case WorkStatus::RetryExceeded:
      return "retry exceeded";
    case WorkStatus::WindowBind:
      return "window bind error";
    case WorkStatus::Fatal:
      return "fatal";
  }
  return "?";
}

}  // namespace weft::sim

// When a CQ owes its consumer an event (verbs draft §8.2.1): one-shot, and only for later entries.
#pragma once

#include <cstdint>
#include <span>

namespace weft::core {

enum class CQState : std::uint8_t {
  Quiet,           ///< not armed
  ArmedSolicited,  ///< the next solicited (or failed) completion gives an event
  ArmedAny,        ///< the next completion gives an event
  Overflowed,      ///< a completion was lost; for ever
};
enum class CQInput : std::uint8_t {
  ArmSolicited,
  ArmAny,
  Completion,
  SolicitedCompletion,
  Overflow,
};

struct CQTransition {
  CQState from;
  CQInput input;
  CQState to;
  bool event;  ///< the consumer is notified
};
/// Complete: every state has a row for every input (asserted in the test).
std::span<const CQTransition> cq_transitions();
const CQTransition& cq_step(CQState from, CQInput input);

}  // namespace weft::core

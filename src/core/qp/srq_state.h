// When a shared RQ owes its consumer the limit event: one-shot, armed by setting a limit
// (verbs draft §8.2; ibv_modify_srq with IBV_SRQ_LIMIT).
//
//              Arm                      Below (the event)
//   Unarmed ---------> Armed ---------------------------------> Unarmed
#pragma once

#include <cstdint>
#include <span>

namespace weft::core {

enum class SRQState : std::uint8_t { Unarmed, Armed };
enum class SRQInput : std::uint8_t {
  Arm,     ///< a limit above 0 was set
  Disarm,  ///< the limit was set to 0
  Below,   ///< a receive was taken, and fewer than the limit are left
};

struct SRQTransition {
  SRQState from;
  SRQInput input;
  SRQState to;
  bool event;  ///< the consumer is notified
};
/// Complete: every state has a row for every input (asserted at compile time).
std::span<const SRQTransition> srq_transitions();
const SRQTransition& srq_step(SRQState from, SRQInput input);

}  // namespace weft::core

// Names of the entries' values: row i is value i.
#include "device/names.h"

#include <array>
#include <cstddef>

namespace weft::device {
namespace {

constexpr std::array<const char*, 11> kSendOpcodes = {
    "Send",
    "Send with Invalidate",
    "RDMA Write",
    "RDMA Read",
    "RDMA Read with Invalidate",
    "Local Invalidate",
    "RDMA Write with Immediate",
    "Send with Immediate",
    "FetchAdd",
    "CmpSwap",
    "Bind Window",
};
static_assert(kSendOpcodes.size() == static_cast<std::size_t>(SendOpcode::BindWindow) + 1);

constexpr std::array<const char*, 12> kStatuses = {
    "success",
    "local length error",
    "local QP operation error",
    "local protection error",
    "flushed",
    "bad response",
    "remote access error",
    "remote operation error",
    "remote invalid request",
    "retry exceeded",
    "window bind error",
    "fatal error",
};
static_assert(kStatuses.size() == static_cast<std::size_t>(CompletionStatus::Fatal) + 1);

constexpr std::array<const char*, 12> kCompletionOpcodes = {
    "Send",
    "Send with Invalidate",
    "RDMA Write",
    "RDMA Read",
    "RDMA Read with Invalidate",
    "Local Invalidate",
    "RDMA Write with Immediate",
    "Send with Immediate",
    "FetchAdd",
    "CmpSwap",
    "Bind Window",
    "Receive",
};
static_assert(kCompletionOpcodes.size() == static_cast<std::size_t>(CompletionOpcode::Receive) + 1);

template <std::size_t count, typename Value>
const char* look_up(const std::array<const char*, count>& names, Value value) {
  const auto row = static_cast<std::size_t>(value);
  return row < count ? names[row] : "unknown";
}

}  // namespace

const char* name(SendOpcode value) {
  return look_up(kSendOpcodes, value);
}
const char* name(CompletionStatus value) {
  return look_up(kStatuses, value);
}
const char* name(CompletionOpcode value) {
  return look_up(kCompletionOpcodes, value);
}

}  // namespace weft::device

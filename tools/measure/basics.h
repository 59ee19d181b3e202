// What every measuring program needs: failures, a clock, sizes as text.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weft::measure {

/// What ends a run. The text is one sentence for people, without a full stop.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Failure "WHAT: what errno means".
[[noreturn]] void fail_errno(std::string_view what);

/// CLOCK_MONOTONIC in nanoseconds.
std::uint64_t now_ns();

/// "64 KiB"
std::string size_text(std::uint64_t octets);

/// Octets from "64K": K and M are 1024s. Empty unless it is a number from 1 to `octets_max`.
std::optional<std::uint64_t> parse_size(std::string_view text, std::uint64_t octets_max);

}  // namespace weft::measure

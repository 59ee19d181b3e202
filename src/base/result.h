// Result<T>: a value or an error, without exceptions. std::expected is C++23.
#pragma once

#include <optional>
#include <utility>

#include "base/assert.h"

namespace weft {

/// The world's or the caller's fault: an errno value and a static sentence that says what was
/// wrong. `text` is a string literal and lives for ever; only front/ writes errno.
struct Error {
  int code = 0;
  const char* text = "";
};

/// Either a T or an E. Reading the wrong one is our bug and asserts.
template <typename T, typename E = Error>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design
  Result(E error) : error_(error) {}             // NOLINT

  explicit operator bool() const { return value_.has_value(); }
  bool ok() const { return value_.has_value(); }

  T& operator*() { return weft_assert(ok()), *value_; }
  const T& operator*() const { return weft_assert(ok()), *value_; }
  T* operator->() { return weft_assert(ok()), &*value_; }
  const T* operator->() const { return weft_assert(ok()), &*value_; }
  const E& error() const { return weft_assert(!ok()), error_; }

 private:
  std::optional<T> value_;
  E error_{};
};

template <typename E>
class [[nodiscard]] Result<void, E> {
 public:
  Result() = default;
  Result(E error) : failed_(true), error_(error) {}  // NOLINT: implicit by design

  explicit operator bool() const { return !failed_; }
  bool ok() const { return !failed_; }
  const E& error() const { return weft_assert(!ok()), error_; }

 private:
  bool failed_ = false;
  E error_{};
};

}  // namespace weft

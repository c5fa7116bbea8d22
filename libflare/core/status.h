// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

// How FLARE's own programs report failure: a value or a sentence, never an exception across a
// module. Each level adds what it knew: Status::Error("rank 3: " + status.message()).
// Not for use inside the training process (std::string allocates).
namespace flare {

class [[nodiscard]] Status {
 public:
  Status() = default;
  static Status Ok() { return Status(); }
  static Status Error(std::string message) {
    Status s;
    s.message_ = std::move(message);
    return s;
  }
  bool ok() const { return !message_.has_value(); }
  // The sentence; empty when ok.
  const std::string& message() const {
    static const std::string none;
    return message_ ? *message_ : none;
  }
  Status Prefixed(const std::string& context) const {
    return ok() ? *this : Error(context + ": " + message());
  }

 private:
  std::optional<std::string> message_;
};

// Either a value or an error Status. value() may be called only when ok().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                // NOLINT: implicit by intent
  Result(Status status) : status_(std::move(status)) {         // NOLINT: implicit by intent
    if (status_.ok()) status_ = Status::Error("no value");
  }
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  const T& value() const& { return *value_; }
  T& value() & { return *value_; }
  T&& value() && { return std::move(*value_); }
  const T* operator->() const { return &*value_; }
  T* operator->() { return &*value_; }
  const T& operator*() const { return *value_; }
  T& operator*() { return *value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace flare

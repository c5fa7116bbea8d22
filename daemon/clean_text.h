// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

// Text that came from another process, made fit for protobuf and terminals.
namespace flare::daemon {

// Up to the first zero and at most `capacity` bytes; bytes that are no printable UTF-8 become '?'.
std::string CleanText(const char* text, size_t capacity);

}  // namespace flare::daemon

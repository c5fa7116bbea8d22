// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "flare/v1/event.pb.h"
#include "flare/v1/ingest.pb.h"
#include "libflare/core/status.h"

// What a daemon may send. Messages come from machines we do not control: whatever is read from them
// later has passed here first.
//
// Names are cut to a length and lose their control characters; a value that cannot be (a rank
// beyond the world size, a time in the far future, lists without end) rejects the one item it
// belongs to. The functions change `message` in place and say in words why it is rejected. Pure,
// any thread.
namespace flare::diag {

inline constexpr uint32_t kProtocol = 1;
inline constexpr int kMaxMessageBytes = 4 << 20;
inline constexpr uint32_t kMaxWorldSize = 1'000'000;
inline constexpr uint32_t kMaxAttempt = 1'000'000;
inline constexpr size_t kMaxJobBytes =
    256;  // longer identities are rejected: cut, two may be equal
inline constexpr size_t kMaxNameBytes = 256;   // of all other names
inline constexpr size_t kMaxTextBytes = 4096;  // of an exception

Status CheckDaemonHello(v1::DaemonHello* message);
Status CheckRankHello(v1::RankHello* message, uint64_t now_unix_ns);
Status CheckStep(v1::RankStep* message, uint64_t now_unix_ns);
Status CheckState(v1::RankState* message, uint64_t now_unix_ns);

// `text` without control characters, at most `max_bytes`, cut between characters.
void CleanText(std::string* text, size_t max_bytes);

}  // namespace flare::diag

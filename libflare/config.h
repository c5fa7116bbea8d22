// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// What the environment tells this process: whether it is a rank, of which job, and how to trace it.
//
// Plain values, read once; no allocation. Texts are cut to fit.
namespace flare {

// Which variables named the rank. Launchers such as torchrun also run inside a scheduler's task and
// would pass for a rank there, so ranks that only a scheduler named wake later (see WakeReason).
enum class RankSource : uint8_t { kNone = 0, kTorchrun = 1, kScheduler = 2, kForced = 3 };

struct Config {
  bool disabled = false;  // FLARE_DISABLE
  RankSource source = RankSource::kNone;
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint32_t local_rank = 0;
  uint32_t attempt = 0;
  uint32_t ring_events = 4096;  // FLARE_RING_EVENTS
  uint32_t threads = 32;        // FLARE_THREADS
  char job[64] = {};
  char job_name[64] = {};
  char directory[256] = {};
  char log_path[256] = {};  // FLARE_LOG
};

// Value of `name` in an environment block, or null. `environment` may be null.
const char* FindVariable(const char* const* environment, const char* name);

// Fills `config` from `environment`. `uid` names the default directory; `parent_pid` the default
// job.
void ReadConfig(const char* const* environment, uint32_t uid, int parent_pid, Config* config);

// Parses decimal digits only. False on anything else or when the value exceeds `max`.
bool ParseNumber(const char* text, uint64_t max, uint64_t* value);

}  // namespace flare

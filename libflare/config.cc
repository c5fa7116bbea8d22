// SPDX-License-Identifier: Apache-2.0
#include "libflare/config.h"

#include <cstring>

#include "libflare/core/bounded_text.h"

namespace flare {
namespace {

constexpr uint64_t kMaxRank = (1u << 24) - 1;

bool ReadNumber(const char* const* env, const char* name, uint64_t max, uint32_t* value) {
  uint64_t number;
  const char* text = FindVariable(env, name);
  if (text == nullptr || !ParseNumber(text, max, &number)) return false;
  *value = static_cast<uint32_t>(number);
  return true;
}

// Set, and neither empty nor "0".
bool ReadSwitch(const char* const* env, const char* name) {
  const char* text = FindVariable(env, name);
  return text != nullptr && text[0] != '\0' && std::strcmp(text, "0") != 0;
}

struct RankVariables {
  const char* rank;
  const char* world_size;
  const char* local_rank;
  RankSource source;
};

// In order of preference: the launcher nearest to the training program first.
constexpr RankVariables kRankVariables[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", RankSource::kTorchrun},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", RankSource::kScheduler},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     RankSource::kScheduler},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", RankSource::kScheduler},
};

void ReadRank(const char* const* env, Config* config) {
  for (const RankVariables& names : kRankVariables) {
    uint32_t rank, world_size;
    if (!ReadNumber(env, names.rank, kMaxRank, &rank)) continue;
    if (!ReadNumber(env, names.world_size, kMaxRank + 1, &world_size)) continue;
    if (rank >= world_size) continue;
    config->rank = rank;
    config->world_size = world_size;
    config->source = names.source;
    ReadNumber(env, names.local_rank, kMaxRank, &config->local_rank);
    break;
  }
  if (ReadSwitch(env, "FLARE_FORCE")) config->source = RankSource::kForced;
}

void AddAddress(const char* const* env, const char* address, BoundedText* text) {
  text->Add(address);
  const char* port = FindVariable(env, "MASTER_PORT");
  if (port != nullptr) text->AddChar(':').Add(port);
}

// The same text on every rank of a job, and another one for another job.
void ReadJob(const char* const* env, int parent_pid, Config* config) {
  BoundedText job(config->job);
  const char* value;
  const char* address = FindVariable(env, "MASTER_ADDR");
  if ((value = FindVariable(env, "FLARE_JOB")) != nullptr && value[0] != '\0') {
    job.Add(value);
  } else if ((value = FindVariable(env, "SLURM_JOB_ID")) != nullptr && value[0] != '\0') {
    job.Add(value);
    const char* step = FindVariable(env, "SLURM_STEP_ID");
    if (step != nullptr && step[0] != '\0') job.AddChar('.').Add(step);
  } else if ((value = FindVariable(env, "TORCHELASTIC_RUN_ID")) != nullptr && value[0] != '\0' &&
             std::strcmp(value, "none") != 0) {
    job.Add(value);
    if (address != nullptr) AddAddress(env, address, &job.AddChar('-'));
  } else if (address != nullptr) {
    AddAddress(env, address, &job);
  } else {
    job.Add("job-").AddNumber(static_cast<uint32_t>(parent_pid));
  }
  const char* name = FindVariable(env, "FLARE_JOB_NAME");
  BoundedText(config->job_name).Add(name != nullptr && name[0] != '\0' ? name : config->job);
}

}  // namespace

const char* FindVariable(const char* const* environment, const char* name) {
  if (environment == nullptr) return nullptr;
  const size_t length = std::strlen(name);
  for (; *environment != nullptr; ++environment) {
    if (std::strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') {
      return *environment + length + 1;
    }
  }
  return nullptr;
}

bool ParseNumber(const char* text, uint64_t max, uint64_t* value) {
  if (*text == '\0') return false;
  uint64_t number = 0;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9') return false;
    const uint64_t digit = static_cast<uint64_t>(*text - '0');
    if (number > (max - digit) / 10) return false;
    number = number * 10 + digit;
  }
  *value = number;
  return number <= max;
}

void ReadConfig(const char* const* env, uint32_t uid, int parent_pid, Config* config) {
  *config = Config();
  config->disabled = ReadSwitch(env, "FLARE_DISABLE");
  ReadRank(env, config);
  if (config->disabled || config->source == RankSource::kNone) return;

  ReadNumber(env, "TORCHELASTIC_RESTART_COUNT", UINT32_MAX, &config->attempt);
  ReadJob(env, parent_pid, config);
  uint32_t number;
  if (ReadNumber(env, "FLARE_RING_EVENTS", 65536, &number) && number >= 64 &&
      (number & (number - 1)) == 0) {
    config->ring_events = number;
  }
  if (ReadNumber(env, "FLARE_THREADS", 256, &number) && number >= 1) config->threads = number;
  const char* directory = FindVariable(env, "FLARE_DIR");
  BoundedText text(config->directory);
  if (directory != nullptr && directory[0] != '\0') {
    text.Add(directory);
  } else {
    text.Add("/dev/shm/flare-").AddNumber(uid);
  }
  if (text.cut()) config->disabled = true;  // another directory than the one asked for helps nobody
  const char* log_path = FindVariable(env, "FLARE_LOG");
  if (log_path != nullptr) BoundedText(config->log_path).Add(log_path);
}

}  // namespace flare

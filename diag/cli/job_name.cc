// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/job_name.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace flare::cli {
namespace {

constexpr size_t kNameInId = 38;  // 63 less "-YYYYmmdd-HHMMSS-xxxxxx" and one to spare

constexpr size_t kLongestId = 63;

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string Plain(const std::string& name, size_t most) {
  std::string id;
  for (const char c : name.substr(0, most)) id += IsPlain(c) ? c : '_';
  if (id.empty() || id[0] == '.' || id[0] == '-') id = "job" + id.substr(0, most - 3);
  return id;
}

}  // namespace

std::string NameOfCommand(const std::vector<std::string>& command) {
  for (const std::string& argument : command) {
    const std::string name = FileName(argument);
    if (name.size() > 3 && name.ends_with(".py")) return name.substr(0, name.size() - 3);
  }
  for (size_t i = 0; i + 1 < command.size(); ++i) {
    if (command[i] == "-m" && !command[i + 1].empty()) return command[i + 1];
  }
  const std::string program = command.empty() ? "" : FileName(command[0]);
  return program.empty() ? "job" : program;
}

std::string PlainId(const std::string& name) { return Plain(name, kLongestId); }

std::string MakeJobId(const std::string& name, uint64_t unix_ns, uint32_t random) {
  std::string id = Plain(name, kNameInId);
  const std::time_t seconds = static_cast<std::time_t>(unix_ns / 1'000'000'000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char tail[40];
  const size_t length = std::strftime(tail, sizeof(tail), "-%Y%m%d-%H%M%S", &utc);
  std::snprintf(tail + length, sizeof(tail) - length, "-%06x", random & 0xffffff);
  return id + tail;
}

std::string InheritedJobId() {
  std::string id = Environment("FLARE_JOB");
  if (id.empty() && std::atoi(Environment("SLURM_NTASKS").c_str()) > 1 &&
      !Environment("SLURM_PROCID").empty()) {
    id = Environment("SLURM_JOB_ID");
    const std::string step = Environment("SLURM_STEP_ID");
    if (!id.empty() && !step.empty()) id += "." + step;
  }
  const bool fit = !id.empty() && id.size() <= kLongestId && id[0] != '.' && id[0] != '-' &&
                   std::all_of(id.begin(), id.end(), IsPlain);
  return fit ? id : "";
}

}  // namespace flare::cli

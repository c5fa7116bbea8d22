// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diag/cli/probe.h"
#include "diag/cli/run_segments.h"
#include "libflare/core/status.h"

// What a `flare run` will do, decided before the command starts and while there is one thread.
namespace flare::cli {

struct RunOptions {
  std::string name;
  std::string state_dir;
  std::string engine;  // of --engine or $FLARE_ENGINE, else empty
  std::string report_json;
  bool kill_on_hang = false;
  bool quiet = false;
  bool no_progress = false;
  std::vector<std::string> command;
};

struct RunPlan {
  std::string job;
  std::string name;
  std::string engine;  // where the engine is, or will be when it is embedded
  bool embed_engine = false;
  bool embed_daemon = false;
  std::string state_dir;  // of an embedded engine
  std::string run_dir;  // private folder for its socket and the daemon's spool, removed at the end
  std::optional<RunSegments> segments;  // with an embedded daemon
  std::vector<Variable> variables;      // what the command gets
  std::vector<std::string> notes;       // what the user should know, a line each
};

// The id that the environment gives, else a new one.
std::string ChooseJobId(const std::string& name);

// An error says why the command must run without FLARE; it then must run all the same.
Result<RunPlan> PlanRun(const RunOptions& options, const std::string& job, const std::string& name);

// What a run leaves on this machine while it lasts; everything goes at its end.
struct RunTraces {
  std::string run_dir;
  std::string socket;
  std::string segments;
};
RunTraces TracesOf(const RunPlan& plan);
void RemoveTraces(const RunTraces& traces);

}  // namespace flare::cli

// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/run_plan.h"

#include <unistd.h>

#include <cstdlib>
#include <random>

#include "diag/cli/endpoint.h"
#include "diag/cli/job_name.h"
#include "diag/cli/preload.h"
#include "diag/cli/private_dir.h"
#include "libflare/core/clock.h"

namespace flare::cli {
namespace {

constexpr int kAdvertisedTimeoutMs = 300;

// What libflare keeps of a name; a longer one would be cut there in the middle of a character.
constexpr size_t kLongestJobName = 63;

// Several runs may share a job and a machine; their folders must not meet.
std::string FolderName(const std::string& job) { return job + "." + std::to_string(getpid()); }

// A state folder that cannot be written (a read-only home) must not cost the user the findings.
Status PlanFolders(const RunOptions& options, RunPlan* plan) {
  plan->state_dir = options.state_dir;
  plan->run_dir = RunDir(options.state_dir, FolderName(plan->job));
  const Status usual = MakePrivateDir(plan->run_dir);
  if (usual.ok()) return usual;
  const std::string mine = "/tmp/flare-" + std::to_string(geteuid());
  plan->state_dir = mine + "/state";
  plan->run_dir = RunDir(plan->state_dir, FolderName(plan->job));
  Status status = MakePrivateDir(mine);
  if (status.ok()) status = MakePrivateDir(plan->state_dir);
  if (status.ok()) status = MakePrivateDir(plan->run_dir);
  if (!status.ok()) return status;
  plan->notes.push_back("cannot write " + usual.message() + "; later use --state " +
                        plan->state_dir);
  return status;
}

Status PlanEngine(const RunOptions& options, RunPlan* plan) {
  if (!options.engine.empty()) {
    plan->engine = options.engine;
    return Status::Ok();
  }
  const std::optional<std::string> advertised = AdvertisedEngine(options.state_dir);
  if (advertised && Accepts(*advertised, kAdvertisedTimeoutMs)) {
    plan->engine = *advertised;
    return Status::Ok();
  }
  const Result<std::string> socket = SocketPath(plan->run_dir, FolderName(plan->job));
  if (!socket.ok()) return socket.status();
  plan->engine = "unix:" + *socket;
  plan->embed_engine = true;
  return Status::Ok();
}

Status PlanDaemon(RunPlan* plan) {
  plan->embed_daemon = plan->embed_engine || !StandaloneDaemonServes(DefaultSegmentDir());
  if (!plan->embed_daemon) return Status::Ok();
  Result<RunSegments> segments = RunSegments::Create(FolderName(plan->job));
  if (!segments.ok()) return segments.status();
  plan->segments.emplace(std::move(segments).value());
  plan->variables.emplace_back("FLARE_DIR", plan->segments->path());
  return Status::Ok();
}

}  // namespace

std::string ChooseJobId(const std::string& name) {
  const std::string inherited = InheritedJobId();
  if (!inherited.empty()) return inherited;
  return MakeJobId(name, RealtimeNs(), std::random_device()());
}

Result<RunPlan> PlanRun(const RunOptions& options, const std::string& job,
                        const std::string& name) {
  const Result<std::string> library = FindLibrary();
  if (!library.ok()) return library.status();
  const char* existing = std::getenv("LD_PRELOAD");
  const std::string preload = PreloadValue(existing != nullptr ? existing : "", *library);
  if (Status status = TryPreload(preload); !status.ok()) return status.Prefixed(*library);
  RunPlan plan;
  plan.job = job;
  plan.name = name;
  if (Status status = PlanFolders(options, &plan); !status.ok()) return status;
  plan.variables = {{"LD_PRELOAD", preload},
                    {"FLARE_JOB", job},
                    {"FLARE_JOB_NAME", name.substr(0, kLongestJobName)}};
  if (Status status = PlanEngine(options, &plan); !status.ok()) return status;
  if (Status status = PlanDaemon(&plan); !status.ok()) return status;
  return plan;
}

void RemoveTraces(const RunTraces& traces) {
  RemoveTree(traces.run_dir);
  RemoveSocket(traces.socket);
  if (!traces.segments.empty()) RemoveTree(traces.segments);
}

RunTraces TracesOf(const RunPlan& plan) {
  return {plan.run_dir, plan.embed_engine ? plan.engine : "",
          plan.segments ? plan.segments->path() : ""};
}

}  // namespace flare::cli

// SPDX-License-Identifier: Apache-2.0
// Checks of `flare doctor` that ask the programs at work on this machine, and the engine.
#include "diag/cli/doctor_check.h"
#include "diag/cli/endpoint.h"
#include "diag/cli/private_dir.h"
#include "diag/cli/query_client.h"
#include "diag/report/plain_text.h"

namespace flare::cli {
namespace {

constexpr int kAnswerTimeoutMs = 1000;
constexpr int kListedDaemons = 8;

// "version 0.1.0", with what is wrong about it.
std::string VersionWords(const std::string& version) {
  if (version == FLARE_VERSION) return "version " + version;
  if (version.empty()) return "too old to tell its version; this is flare " FLARE_VERSION;
  return "version " + diag::Printable(version, 40) + ", but this is flare " FLARE_VERSION;
}

Check WithVersion(const std::string& name, const std::string& text, const std::string& version,
                  const std::string& remedy) {
  const bool fits = version == FLARE_VERSION;
  return {name, fits ? CheckLevel::kOk : CheckLevel::kWarning, text + ", " + VersionWords(version),
          fits ? "" : remedy + ": programs of different releases may misread each other"};
}

Check CheckDaemon(const std::string& folder) {
  if (!StandaloneDaemonServes(folder)) {
    return {"daemon", CheckLevel::kOk,
            "no flared serves " + folder + "; 'flare run' brings its own",
            "for jobs that are started by hand, start flared"};
  }
  return WithVersion("daemon", "a flared serves " + folder, StandaloneDaemonVersion(folder),
                     "start the flared of this release in its place, or use its flare");
}

// Daemons of other nodes, which only their engine can ask.
void CheckConnectedDaemons(const v1::ListVersionsResponse& versions, std::vector<Check>* checks) {
  int listed = 0;
  for (const v1::DaemonVersion& daemon : versions.daemons()) {
    if (daemon.version() == FLARE_VERSION || listed++ >= kListedDaemons) continue;
    checks->push_back(WithVersion("remote_daemon",
                                  "the flared of node " + diag::Printable(daemon.node(), 100),
                                  daemon.version(), "install this release there and restart it"));
  }
  if (listed > kListedDaemons) {
    checks->push_back(
        {"remote_daemon", CheckLevel::kWarning,
         "and " + std::to_string(listed - kListedDaemons) + " more daemons of another release",
         "install this release on all nodes"});
  }
}

void CheckEngine(const SourceOptions& sources, std::vector<Check>* checks) {
  const std::optional<std::string> address =
      sources.engine.empty() ? AdvertisedEngine(sources.state_dir) : sources.engine;
  if (!address) {
    checks->push_back({"engine", CheckLevel::kOk,
                       "no flare-engine is announced; 'flare run' brings its own", ""});
    return;
  }
  const std::string shown = diag::Printable(*address, 200);
  if (!Accepts(*address, kAnswerTimeoutMs)) {
    checks->push_back(
        {"engine", CheckLevel::kWarning, "no engine answers at " + shown,
         sources.engine.empty()
             ? "start flare-engine again, or remove " + sources.state_dir + "/engine.addr"
             : "start flare-engine there, or correct --engine or FLARE_ENGINE"});
    return;
  }
  const auto versions = QueryClient(*address).ListVersions(kAnswerTimeoutMs);
  if (!versions.ok()) {
    checks->push_back(
        {"engine", CheckLevel::kWarning,
         "something answers at " + shown + " but not as an engine: " + versions.status().message(),
         "see what listens there; start flare-engine on a free port"});
    return;
  }
  checks->push_back(WithVersion("engine", "an engine answers at " + shown,
                                versions->engine_version(),
                                "start the flare-engine of this release in its place, or use its "
                                "flare"));
  CheckConnectedDaemons(*versions, checks);
}

void CheckRuns(const SourceOptions& sources, std::vector<Check>* checks) {
  for (const Endpoint& run : RunningEndpoints(sources.state_dir)) {
    const std::string text = "'flare run' of " + diag::Printable(run.job, 200) +
                             " is running as process " + std::to_string(run.owner.pid);
    const auto versions = Accepts(run.engine, kAnswerTimeoutMs)
                              ? QueryClient(run.engine).ListVersions(kAnswerTimeoutMs)
                              : Status::Error("no answer");
    if (!versions.ok()) {
      checks->push_back({"run", CheckLevel::kOk, text, ""});
      continue;
    }
    checks->push_back(WithVersion("run", text, versions->engine_version(),
                                  "ask about this job with the flare that runs it"));
  }
}

}  // namespace

std::vector<Check> CheckServices(const SourceOptions& sources, const std::string& segment_dir) {
  std::vector<Check> checks = {CheckDaemon(segment_dir)};
  CheckEngine(sources, &checks);
  CheckRuns(sources, &checks);
  return checks;
}

}  // namespace flare::cli

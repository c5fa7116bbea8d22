// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/embedded.h"

#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>

#include <utility>

namespace flare::cli {
namespace {

// The parts log through spdlog's default logger, which writes to stdout: that belongs to the
// command.
void SilenceLogs() {
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("flare", std::make_shared<spdlog::sinks::null_sink_mt>()));
}

}  // namespace

Result<std::unique_ptr<Embedded>> Embedded::Start(const RunPlan& plan) {
  SilenceLogs();
  std::unique_ptr<Embedded> embedded(new Embedded);
  embedded->job_ = plan.job;
  if (plan.embed_engine) {
    diag::EngineOptions options;
    options.state_dir = plan.state_dir;
    options.listen = plan.engine;
    Result<std::unique_ptr<diag::Engine>> engine = diag::Engine::Start(options);
    if (!engine.ok()) return engine.status().Prefixed("engine");
    embedded->engine_ = std::move(engine).value();
  }
  if (plan.embed_daemon) {
    daemon::DaemonOptions options;
    options.segment_dir = plan.segments->path();
    options.engine_address = plan.engine;
    options.spool_dir = plan.run_dir + "/spool";
    options.exclusive = false;
    Result<std::unique_ptr<daemon::Daemon>> daemon = daemon::Daemon::Start(options);
    if (!daemon.ok()) return daemon.status().Prefixed("daemon");
    embedded->daemon_ = std::move(daemon).value();
  }
  return embedded;
}

void Embedded::StopDaemon() {
  if (daemon_ != nullptr) daemon_->Stop();
}

std::vector<ProcessIdentity> Embedded::LocalRanks() const {
  std::vector<ProcessIdentity> ranks;
  if (daemon_ == nullptr) return ranks;
  for (const daemon::LocalRank& rank : daemon_->local_ranks()) {
    if (rank.job != job_ || !rank.alive || rank.pid <= 0) continue;
    if (const auto process = IdentifyProcess(rank.pid)) ranks.push_back(*process);
  }
  return ranks;
}

}  // namespace flare::cli

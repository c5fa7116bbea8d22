// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/daemon.h"
#include "diag/cli/process_identity.h"
#include "diag/cli/run_plan.h"
#include "diag/engine/engine.h"

// The engine and the daemon of a `flare run` that found none: objects with their own threads.
namespace flare::cli {

class Embedded {
 public:
  // Starts what the plan asks for. May throw what the parts' libraries throw.
  static Result<std::unique_ptr<Embedded>> Start(const RunPlan& plan);

  // Lets the daemon read and deliver what the ranks have left. Before the job is ended.
  void StopDaemon();
  // The ranks of the job on this machine that the daemon follows.
  std::vector<ProcessIdentity> LocalRanks() const;

 private:
  Embedded() = default;
  std::unique_ptr<diag::Engine> engine_;  // goes last: the daemon talks to it
  std::unique_ptr<daemon::Daemon> daemon_;
  std::string job_;
};

}  // namespace flare::cli

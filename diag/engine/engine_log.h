// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spdlog/spdlog.h>

// Where the engine logs: the spdlog logger named "flare-engine" if the program has made one before
// the first line, else nowhere. `flare run` carries an engine and must keep the job's output clean.
namespace flare::diag {

spdlog::logger& EngineLog();

}  // namespace flare::diag

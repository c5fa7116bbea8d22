// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/engine_log.h"

#include <spdlog/sinks/null_sink.h>

namespace flare::diag {

spdlog::logger& EngineLog() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    std::shared_ptr<spdlog::logger> named = spdlog::get("flare-engine");
    if (named) return named;
    return std::make_shared<spdlog::logger>("flare-engine",
                                            std::make_shared<spdlog::sinks::null_sink_mt>());
  }();
  return *logger;
}

}  // namespace flare::diag

// SPDX-License-Identifier: Apache-2.0
// flared: flags in, one Daemon, out on SIGTERM or SIGINT.
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>

#include "daemon/daemon.h"
#include "daemon/version.h"

namespace {

constexpr int kExitError = 1;
constexpr int kExitUsage = 2;

std::string DefaultSegmentDirectory() {
  if (const char* dir = std::getenv("FLARE_DIR"); dir != nullptr && *dir != '\0') return dir;
  return "/dev/shm/flare-" + std::to_string(getuid());
}

std::string DefaultStateDirectory() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state == '/') {
    return std::string(state) + "/flare";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    return std::string(home) + "/.local/state/flare";
  }
  return "/var/lib/flare";
}

constexpr const char* kExamples = R"(
Examples:
  flared                                    serve this user's jobs, engine on this machine
  flared --engine head-node:7707            the engine runs elsewhere
  flared --segment-dir /dev/shm/flare-1000 --state-dir /var/lib/flare

Exit status: 0 ended by a signal, 1 could not run, 2 wrong usage.)";

}  // namespace

int main(int argc, char** argv) {
  flare::daemon::DaemonOptions options;
  options.segment_dir = DefaultSegmentDirectory();
  options.engine_address = "127.0.0.1:7707";
  std::string state_dir = DefaultStateDirectory();
  std::string log_level = "info";

  CLI::App app{"The FLARE node daemon: reads what training processes record and tells the engine.",
               "flared"};
  app.footer(kExamples);
  app.set_version_flag("--version", std::string("flared ") + flare::daemon::kVersion);
  app.add_option("--segment-dir", options.segment_dir,
                 "Where training processes put their segments")
      ->capture_default_str();
  app.add_option("--engine", options.engine_address, "Engine, as host:port or unix:/path")
      ->capture_default_str();
  app.add_option("--state-dir,--state", state_dir, "Folder of what must survive a restart")
      ->capture_default_str();
  app.add_option("--spool-dir", options.spool_dir,
                 "Where batches wait for the engine (default: spool in the state folder)");
  app.add_option("--node", options.node, "Name of this node (default: the host name)");
  app.add_option("--log-level", log_level, "Log messages from this level on; warn means warning")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "warn", "error", "off"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  if (options.spool_dir.empty()) options.spool_dir = state_dir + "/spool";
  spdlog::set_default_logger(spdlog::stderr_color_mt("flared"));
  spdlog::set_level(spdlog::level::from_str(log_level));

  // Blocked before any thread starts, so that only this one takes them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  auto daemon = flare::daemon::Daemon::Start(options);
  if (!daemon.ok()) {
    std::cerr << "flared: " << daemon.status().message() << "\n";
    return kExitError;
  }
  spdlog::info("serving {}, engine {}", options.segment_dir, options.engine_address);
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  spdlog::info("signal {}: stopping", signal_number);
  daemon.value()->Stop();
  const auto counters = daemon.value()->counters();
  spdlog::info("{} events, {} steps folded, {} acknowledged, {} lost", counters.events_read,
               counters.steps_folded, counters.steps_acknowledged, counters.steps_lost);
  return 0;
}

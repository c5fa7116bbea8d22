// SPDX-License-Identifier: Apache-2.0
// flare-engine: flags in, the engine up, a signal, the engine down.
#include <pthread.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <string>

#include "diag/engine/engine.h"
#include "diag/engine/state_dir.h"

namespace {

constexpr int kExitError = 1;
constexpr int kExitUsage = 2;
constexpr char kExamples[] = R"(Examples:
  flare-engine
      listen on 127.0.0.1:7707, keep everything in the default state directory
  flare-engine --listen unix:/run/flare/engine.sock --state-dir /var/lib/flare
      for daemons and the command line of this machine
  flare-engine --listen 0.0.0.0:7707 --insecure
      for the nodes of a cluster, on a network you trust

Daemons connect with `flared --engine ADDRESS`; `flare report` finds the engine by its state directory.)";

struct Flags {
  flare::diag::EngineOptions engine;
  std::string log_level = "info";
};

// Signals are blocked before any thread starts, so that only sigwait() takes them.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

int Run(const Flags& flags) {
  const std::shared_ptr<spdlog::logger> log = spdlog::stderr_color_mt("flare-engine");
  log->set_level(spdlog::level::from_str(flags.log_level));
  const sigset_t signals = BlockSignals();
  flare::Result<std::unique_ptr<flare::diag::Engine>> engine =
      flare::diag::Engine::Start(flags.engine);
  if (!engine.ok()) {
    fprintf(stderr, "flare-engine: %s\n", engine.status().message().c_str());
    return kExitError;
  }
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  log->info("stopping");
  (*engine)->Stop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  flags.engine.advertise = true;
  flags.engine.listen = "127.0.0.1:7707";
  flags.engine.state_dir = flare::diag::DefaultStateDir();
  CLI::App app("Keeps what flared daemons send, finds what is wrong with jobs, answers `flare`.",
               "flare-engine");
  app.footer(kExamples);
  app.set_version_flag("--version", std::string("flare-engine ") + FLARE_VERSION);
  app.add_option("--listen", flags.engine.listen, "HOST:PORT (port 0: any free one) or unix:/PATH")
      ->capture_default_str();
  app.add_option("--state-dir,--state", flags.engine.state_dir,
                 "folder of the database and the lock")
      ->capture_default_str();
  app.add_option("--log-level", flags.log_level, "log messages from this level on; warn means warning")
      ->capture_default_str()
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "warn", "error", "off"}));
  app.add_flag("--insecure", flags.engine.insecure,
               "listen where other machines can reach, without encryption or authentication");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  return Run(flags);
}

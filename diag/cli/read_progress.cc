// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/read_progress.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string>

#include "diag/cli/terminal.h"
#include "diag/report/plain_text.h"

namespace flare::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
constexpr std::chrono::milliseconds kBetweenPaints(200);

std::atomic<import::ReadWatch*> interrupted_watch{nullptr};

// The first signal ends the reading in good order; a second one ends the program.
void Interrupt(int signal) {
  if (import::ReadWatch* watch = interrupted_watch.load()) watch->stop = true;
  std::signal(signal, SIG_DFL);
}

std::string Megabytes(uint64_t bytes) {
  return diag::Number(static_cast<double>(bytes) / 1e6) + " MB";
}

void Paint(std::stop_token stop, import::ReadWatch* watch, uint64_t files, uint64_t bytes) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  bool painted = false;
  while (!wake.wait_for(lock, stop, kBetweenPaints, [&] { return stop.stop_requested(); })) {
    const std::string line = "flare: reading " + diag::Counted(files, "file") + ", " +
                             Megabytes(watch->raw_bytes) + " of " + Megabytes(bytes);
    const size_t columns = SizeOf(STDERR_FILENO).columns;
    WriteText(STDERR_FILENO, "\r" + diag::Shorten(line, columns - 1) + "\x1b[K");
    painted = true;
  }
  if (painted) WriteText(STDERR_FILENO, "\r\x1b[K");
}

}  // namespace

ReadProgress::ReadProgress(import::ReadWatch* watch, uint64_t files, uint64_t bytes) {
  interrupted_watch = watch;
  for (const int signal : kSignals) std::signal(signal, Interrupt);
  if (!IsCapableTerminal(STDERR_FILENO)) return;
  painter_ =
      std::jthread([=](std::stop_token stop) { Paint(std::move(stop), watch, files, bytes); });
}

ReadProgress::~ReadProgress() {
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
  interrupted_watch = nullptr;
}

}  // namespace flare::cli

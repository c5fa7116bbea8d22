// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "diag/cli/command.h"
#include "diag/cli/finding_news.h"
#include "diag/cli/source_options.h"
#include "diag/cli/terminal.h"
#include "diag/report/report_json.h"
#include "diag/report/report_text.h"

namespace flare::cli {
namespace {

constexpr int kLastReportTries = 50;
constexpr std::chrono::milliseconds kBetweenTries(100);

bool Over(const v1::Report& report) {
  const std::string& state = report.job().state();
  return state == "ended" || state == "lost" || state == "imported";
}

// Shows reports one after the other in the form that the reader of stdout can use.
class Screen {
 public:
  explicit Screen(bool json) : json_(json), redraw_(!json && IsCapableTerminal(STDOUT_FILENO)) {}

  bool Show(const v1::Report& report) {
    if (json_) return ShowOnce(diag::JsonText(diag::ReportJson(report), -1) + "\n");
    const diag::TextOptions options = TextOptionsFor(STDOUT_FILENO);
    if (redraw_) return ShowOnce("\x1b[H\x1b[2J" + diag::RenderReport(report, options));
    return ShowChanges(report, options);
  }

 private:
  // An unchanged report, as heartbeats bring it, is not shown again.
  bool ShowOnce(const std::string& text) {
    if (text == shown_) return true;
    shown_ = text;
    return WriteText(STDOUT_FILENO, text);
  }

  bool ShowChanges(const v1::Report& report, const diag::TextOptions& options) {
    std::string text;
    for (const v1::Finding& finding : news_.Update(report)) {
      text += finding.state() == "open" ? diag::RenderOpened(finding, options)
                                        : diag::RenderChange(finding, options);
    }
    if (report.job().state() != state_) {
      state_ = report.job().state();
      text += diag::ProgressLine(report, options.columns) + "\n";
    }
    return WriteText(STDOUT_FILENO, text);
  }

  const bool json_;
  const bool redraw_;
  std::string shown_;
  std::string state_;
  FindingNews news_;
};

// An embedded engine goes with its job, perhaps before its last report has reached us. It leaves
// that one in the database while it stops.
std::optional<v1::Report> LastReport(const SourceOptions& sources, const std::string& job_id) {
  for (int attempt = 0; attempt < kLastReportTries; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(kBetweenTries);
    const Result<KnownJobs> known = FindJobs(sources);
    if (!known.ok()) return std::nullopt;
    const Result<KnownJob> job = ChooseJob(*known, job_id);
    if (!job.ok() || job->summary.job() != job_id) continue;
    Result<v1::Report> report = job->source->GetReport(job_id);
    if (report.ok() && Over(*report)) return std::move(report).value();
  }
  return std::nullopt;
}

int Watch(const SourceOptions& sources, const std::string& wanted, bool json) {
  std::signal(SIGINT, [](int) { _exit(kExitInterrupted); });
  int exit_code = kExitOk;
  const Result<KnownJobs> known = FindJobsAloud(sources, &exit_code);
  if (!known.ok()) return exit_code;
  const Result<KnownJob> job = ChooseJob(*known, wanted);
  if (!job.ok()) return Fail(job.status().message());
  Screen screen(json);
  bool over = false;
  bool readable = true;
  const Status status = job->source->Watch(
      job->summary.job(),
      [&](const v1::Report& report) {
        over = Over(report);
        readable = screen.Show(report);
        return readable && !over;
      },
      std::stop_token());
  if (!status.ok()) {
    const std::optional<v1::Report> last = LastReport(sources, job->summary.job());
    if (!last) {
      return Fail(status.message(), job->source->refused() ? kExitRefused : kExitError);
    }
    readable = screen.Show(*last);
  }
  return readable ? kExitOk : kExitError;
}

}  // namespace

Command AddWatch(CLI::App* root, const CommandLine*) {
  CLI::App* app =
      AddSubcommand(root, "watch", "Follow a job until it ends",
                    {"flare watch              # the newest job, redrawn on a terminal",
                     "flare watch nightly | tee watch.log",
                     "flare watch --json | jq -c '.findings[] | select(.state == \"open\")'"});
  auto sources = std::make_shared<SourceOptions>();
  auto job = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  AddSourceOptions(app, sources.get());
  app->add_option("JOB", *job, "Job, by id or name; default: the newest");
  app->add_flag("--json", *json, "Print one JSON document a line at each change");
  return {app, [sources, job, json] { return Watch(*sources, *job, *json); }};
}

}  // namespace flare::cli

// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/run_observer.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "diag/report/report_text.h"
#include "libflare/core/clock.h"

namespace flare::cli {
namespace {

constexpr std::chrono::milliseconds kBetweenTries(300);
constexpr int kEndJobTimeoutMs = 5000;
constexpr int kFreezeTimeoutMs = 2000;

}  // namespace

v1::Report EmptyReport(const std::string& job, const std::string& name) {
  v1::Report report;
  report.mutable_job()->set_job(job);
  report.mutable_job()->set_name(name);
  report.mutable_job()->set_state("running");
  report.mutable_job()->set_first_seen_unix_ns(RealtimeNs());
  report.mutable_job()->set_last_seen_unix_ns(RealtimeNs());
  report.mutable_job()->set_exit_status(-1);
  return report;
}

void MarkEnded(v1::Report* report, int exit_status) {
  report->mutable_job()->set_state("ended");
  report->mutable_job()->set_exit_status(exit_status);
}

RunObserver::RunObserver(const RunOptions& options, RunPlan plan, ReportFile* report_file,
                         RunConsole* console, int wake_fd)
    : options_(options),
      plan_(std::move(plan)),
      report_file_(report_file),
      console_(console),
      wake_fd_(wake_fd),
      report_(EmptyReport(plan_.job, plan_.name)) {
  thread_ = std::thread([this] { Run(); });
}

RunObserver::~RunObserver() { thread_.join(); }

void RunObserver::CommandEnded(int exit_status) {
  exit_status_.store(exit_status);
  ended_source_.request_stop();
}

void RunObserver::EndExpected() {
  if (live_findings_.load()) freeze_source_.request_stop();
}

std::vector<ProcessIdentity> RunObserver::TakeKillTargets() {
  const std::unique_lock lock(targets_mutex_, std::chrono::milliseconds(500));
  return lock.owns_lock() ? std::exchange(targets_, {}) : std::vector<ProcessIdentity>();
}

void RunObserver::Run() {
  // The libraries below may throw; nothing of it may reach the command.
  try {
    Observe();
  } catch (const std::exception& error) {
    Complain(error.what());
  }
  done_.store(true);
  Wake();
}

void RunObserver::Observe() {
  for (const std::string& note : plan_.notes) Complain(note);
  if (StartEmbedded()) {
    client_ = std::make_unique<QueryClient>(plan_.engine);
    FollowReport();
  }
  std::unique_lock lock(wait_mutex_);
  ended_.wait(lock, ended_source_.get_token(), [] { return false; });
  lock.unlock();
  Settle();
}

bool RunObserver::StartEmbedded() {
  if (!plan_.embed_engine && !plan_.embed_daemon) return true;
  Result<std::unique_ptr<Embedded>> started = Embedded::Start(plan_);
  if (!started.ok()) {
    Complain("cannot watch this job: " + started.status().message());
    return false;
  }
  embedded_ = std::move(started).value();
  const std::optional<ProcessIdentity> self = IdentifyProcess(getpid());
  if (!plan_.embed_engine || !self) return true;
  Result<PublishedEndpoint> published =
      PublishedEndpoint::Publish(plan_.run_dir, {plan_.job, plan_.name, plan_.engine, *self});
  if (published.ok()) {
    endpoint_.emplace(std::move(published).value());
  } else {
    Complain("other terminals cannot see this job: " + published.status().message());
  }
  return true;
}

void RunObserver::FollowReport() {
  const std::stop_token ended = ended_source_.get_token();
  std::stop_source watching;  // ends a watch for either reason
  const std::stop_callback on_end(ended, [&] { watching.request_stop(); });
  const std::stop_callback on_freeze(freeze_source_.get_token(), [&] { watching.request_stop(); });
  bool hangs = false;
  while (!watching.stop_requested() && !hangs) {
    const Status status = client_->Watch(
        plan_.job,
        [&](const v1::Report& report) {
          hangs = OnReport(report);
          return !hangs;
        },
        watching.get_token());
    const bool expected = status.ok() || client_->unknown_job();  // no rank has come yet
    if (!expected && !complained_of_engine_) {
      complained_of_engine_ = true;
      Complain(status.message() + "; the job goes on, trying again");
    }
    if (hangs) break;
    std::unique_lock lock(wait_mutex_);
    ended_.wait_for(lock, watching.get_token(), kBetweenTries, [] { return false; });
  }
  if (ended.stop_requested()) return;
  FreezeReport();
  if (hangs) RequestKill();
}

// True when the command is to be ended because it certainly hangs.
bool RunObserver::OnReport(const v1::Report& report) {
  complained_of_engine_ = false;
  report_ = report;
  if (report_.job().name().empty()) report_.mutable_job()->set_name(plan_.name);
  live_findings_.store(std::any_of(
      report.findings().begin(), report.findings().end(),
      [](const v1::Finding& f) { return f.state() == "open" || f.state() == "suspected"; }));
  const bool hangs = TellNews(report_);
  WriteReportFile(report_file_->Update(report_, ReportFile::Clock::now()));
  if (console_->live() && report.job().ranks_seen() > 0) {
    console_->ShowProgress(diag::ProgressLine(report, console_->columns()));
  }
  return hangs && options_.kill_on_hang;
}

// True when a hang has opened.
bool RunObserver::TellNews(const v1::Report& report) {
  bool hangs = false;
  for (const v1::Finding& finding : news_.Update(report)) {
    const bool open = finding.state() == "open";
    console_->Print(open ? diag::RenderOpened(finding, console_->text_options())
                         : diag::RenderChange(finding, console_->text_options()));
    hangs = hangs || (open && finding.class_() == "hang");
  }
  return hangs;
}

void RunObserver::FreezeReport() {
  const Result<v1::Report> frozen = client_->EndJob(plan_.job, -1, kFreezeTimeoutMs);
  if (!frozen.ok()) Complain(frozen.status().message());
}

void RunObserver::RequestKill() {
  if (embedded_ != nullptr) {
    const std::unique_lock lock(targets_mutex_);
    targets_ = embedded_->LocalRanks();
  }
  console_->Print("flare: ending the command because it hangs (--kill-on-hang)\n");
  kill_wanted_.store(true);
  Wake();
}

v1::Report RunObserver::LastReport(int exit_status) {
  if (client_ == nullptr) return report_;
  Result<v1::Report> last = client_->EndJob(plan_.job, exit_status, kEndJobTimeoutMs);
  if (last.ok() && last->job().job() == plan_.job) return std::move(last).value();
  // An engine that saw no rank of the job need not know it.
  if (!last.ok() && !client_->unknown_job()) Complain(last.status().message());
  return report_;
}

void RunObserver::Settle() {
  const int exit_status = exit_status_.load();
  console_->HideProgress();
  if (embedded_ != nullptr) embedded_->StopDaemon();
  report_ = LastReport(exit_status);
  if (report_.job().name().empty()) report_.mutable_job()->set_name(plan_.name);
  MarkEnded(&report_, exit_status);
  WriteReportFile(report_file_->Write(report_));
  endpoint_.reset();
  embedded_.reset();
  if (client_ != nullptr) {
    console_->Print(diag::RenderSummary(report_, console_->text_options()));
  }
}

void RunObserver::WriteReportFile(const Status& written) {
  if (written.ok() || complained_of_file_) return;
  complained_of_file_ = true;
  Complain("cannot write the report: " + written.message());
}

void RunObserver::Complain(const std::string& message) {
  console_->Print("flare: " + message + "\n");
}

void RunObserver::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof(one));
}

}  // namespace flare::cli

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "diag/cli/embedded.h"
#include "diag/cli/endpoint.h"
#include "diag/cli/finding_news.h"
#include "diag/cli/query_client.h"
#include "diag/cli/report_file.h"
#include "diag/cli/run_console.h"
#include "diag/cli/run_plan.h"

// The side of a `flare run` that watches: starts what is embedded, follows the report, tells news.
//
// Everything happens on a thread of its own, so that nothing here can delay or end the command. The
// main thread only reads flags, which change with a write to `wake_fd`.
namespace flare::cli {

class RunObserver {
 public:
  RunObserver(const RunOptions& options, RunPlan plan, ReportFile* report_file, RunConsole* console,
              int wake_fd);
  ~RunObserver();  // waits for the thread; only once done()

  // Somebody is ending the command. Trouble that is known by now stays the last word: how the ranks
  // die of the signal is no news about them.
  void EndExpected();
  // The command has ended: asks the engine for the last word, tells the summary, then is done().
  void CommandEnded(int exit_status);
  bool done() const { return done_.load(); }

  // --kill-on-hang: a hang is certain. The processes to end besides the command.
  bool kill_wanted() const { return kill_wanted_.load(); }
  std::vector<ProcessIdentity> TakeKillTargets();

 private:
  void Run();
  void Observe();
  bool StartEmbedded();
  void FollowReport();
  bool OnReport(const v1::Report& report);
  bool TellNews(const v1::Report& report);
  void FreezeReport();
  void RequestKill();
  void Settle();
  v1::Report LastReport(int exit_status);
  void WriteReportFile(const Status& written);
  void Complain(const std::string& message);
  void Wake();

  const RunOptions& options_;
  RunPlan plan_;
  ReportFile* report_file_;
  RunConsole* console_;
  const int wake_fd_;

  std::unique_ptr<Embedded> embedded_;
  std::optional<PublishedEndpoint> endpoint_;
  std::unique_ptr<QueryClient> client_;
  FindingNews news_;
  v1::Report report_;  // the last one seen
  bool complained_of_file_ = false;
  bool complained_of_engine_ = false;

  std::atomic<bool> done_{false};
  std::atomic<bool> kill_wanted_{false};
  std::timed_mutex targets_mutex_;
  std::vector<ProcessIdentity> targets_;
  std::atomic<int> exit_status_{-1};
  std::mutex wait_mutex_;
  std::condition_variable_any ended_;
  std::stop_source ended_source_;
  std::stop_source freeze_source_;
  std::atomic<bool> live_findings_{false};  // something is open or suspected
  std::thread thread_;
};

// The report of a job of which nothing is known yet.
v1::Report EmptyReport(const std::string& job, const std::string& name);

// Marks a report as that of a job whose command has ended.
void MarkEnded(v1::Report* report, int exit_status);

}  // namespace flare::cli

// SPDX-License-Identifier: Apache-2.0
#include "diag/trace/job_trace.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace flare::diag {
namespace {

constexpr uint32_t kSteps = 1;     // track of a rank
constexpr uint32_t kFindings = 1;  // track of the process for findings

std::string JsonOf(const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) return "{}";
  return text;
}

TraceArguments Facts(const JobMemory& job) {
  const v1::JobSummary& summary = job.job.summary;
  return {{kTraceMark, kTraceLayout},
          {"flare.job", summary.job()},
          {"flare.job_name", summary.name()},
          {"flare.world_size", std::to_string(summary.world_size())}};
}

void WriteRank(const StoredRank& rank, TraceWriter* writer) {
  std::string name = "rank " + std::to_string(rank.hello.rank());
  if (!rank.hello.node().empty()) name += " (" + rank.hello.node() + ")";
  writer->Process(rank.hello.rank(), name, {{kRankArgument, JsonOf(rank.hello)}});
  writer->Track(rank.hello.rank(), kSteps, "steps");
}

void WriteStep(uint32_t rank, const v1::RankStep& step, TraceWriter* writer) {
  writer->Slice(rank, kSteps, "step " + std::to_string(step.step()), step.start_unix_ns(),
                step.duration_ns(), {{kStepArgument, JsonOf(step)}});
  if (step.has_device() && step.device().span_ns() > 0) {
    const double span = static_cast<double>(step.device().span_ns());
    writer->Counter(rank, "device busy %", step.start_unix_ns(),
                    100 * static_cast<double>(step.device().busy_ns()) / span);
    writer->Counter(rank, "device communication %", step.start_unix_ns(),
                    100 * static_cast<double>(step.device().communication_ns()) / span);
  }
}

// Beside the ranks; a number that no rank has.
void WriteFindings(const JobMemory& job, uint32_t process, TraceWriter* writer) {
  if (job.findings.empty()) return;
  writer->Process(process, "findings", {});
  writer->Track(process, kFindings, "findings");
  for (const Finding& finding : job.findings) {
    const Verdict& verdict = finding.verdict;
    std::string ranks;
    for (const Rank rank : verdict.ranks) {
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank.value);
    }
    // An instant: findings overlap, and slices of one track must not.
    writer->Instant(process, kFindings, verdict.finding_class + "/" + verdict.cause,
                    finding.first_seen_unix_ns,
                    {{"id", finding.id},
                     {"state", StateName(finding.state)},
                     {"team", verdict.team},
                     {"ranks", ranks},
                     {"summary", verdict.summary},
                     {"action", verdict.action}});
  }
}

}  // namespace

bool WriteJobTrace(const JobMemory& job, TraceWriter* writer) {
  writer->Begin(Facts(job));
  uint32_t last_rank = 0;
  for (const StoredRank& rank : job.ranks) {
    WriteRank(rank, writer);
    last_rank = std::max(last_rank, rank.hello.rank());
  }
  // By rank, in order of time, as the tracks want it.
  std::vector<const StoredStep*> steps;
  steps.reserve(job.steps.size());
  for (const StoredStep& step : job.steps) steps.push_back(&step);
  std::stable_sort(steps.begin(), steps.end(), [](const StoredStep* a, const StoredStep* b) {
    return std::pair(a->rank, a->start_unix_ns) < std::pair(b->rank, b->start_unix_ns);
  });
  for (const StoredStep* stored : steps) {
    v1::RankStep step;
    if (step.ParseFromString(stored->message)) WriteStep(stored->rank, step, writer);
  }
  WriteFindings(job, last_rank + 1, writer);
  return writer->End();
}

}  // namespace flare::diag

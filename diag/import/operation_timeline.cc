// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "diag/import/importers.h"
#include "diag/import/json_args.h"
#include "diag/import/json_events.h"
#include "diag/import/kineto_names.h"

// Timelines of pipeline-parallel training as straggler studies publish them: Chrome events of
// operations (forward-compute, backward-send, grads-reduce-scatter, ...) with the step in their
// arguments, a process for each data-parallel rank, threads named "PP rank 1, TP rank 0, compute".
//
// What is shown is a worker: one data-parallel rank in one pipeline stage. Its compute lane is its
// own time; all else of a step it waits or communicates, and that goes to communication_ns, so that
// own_time.h means here what it means everywhere.
namespace flare::import {
namespace {

constexpr size_t kMaxOperations = 1 << 23;
constexpr int64_t kMaxParallel = 1 << 16;  // data-parallel ranks, pipeline stages

struct Worker {
  uint32_t data_rank = 0, stage = 0;
  auto operator<=>(const Worker&) const = default;
};

struct Span {
  int64_t begin_ns, end_ns;
  uint64_t step;
  std::pair<uint32_t, uint32_t> lane;  // process and thread
  EventKind kind;
  bool computes;
};

struct Lane {
  uint32_t stage = 0, tensor_rank = 0;
};

std::optional<uint32_t> NumberAfter(std::string_view text, std::string_view words) {
  const size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + words.size());
  uint32_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || number >= kMaxParallel) return std::nullopt;
  return number;
}

class Timeline {
 public:
  void Take(const JsonEvent& event) {
    const auto pid = Number(event.Text("pid")), tid = Number(event.Text("tid"));
    if (event.Raw("ph") == "\"M\"") {
      if (event.String("name") == "thread_name" && pid && tid) NameLane({*pid, *tid}, event);
      return;
    }
    if (event.Raw("ph") != "\"X\"") return;
    const auto begin = event.Nanoseconds("ts"), duration = event.Nanoseconds("dur");
    const std::string_view name = event.String("name");
    const bool parsed = args_.Parse(event.Raw("args"));
    const int64_t step = parsed ? args_.Int("step").value_or(-1) : -1;
    constexpr int64_t kLatest = int64_t{1} << 60;
    if (!begin || !duration || !pid || !tid || step < 0 || *duration < 0 || *begin < -kLatest ||
        *begin > kLatest || *duration > kLatest || operations_.size() >= kMaxOperations) {
      ++left_out_;
      return;
    }
    EventKind kind = EventKind::kNone;
    if (name == "optimizer") kind = EventKind::kOptimizer;
    if (name == "gc") kind = EventKind::kGc;
    if (name == "backward-compute") kind = EventKind::kBackward;
    const bool computes = kind != EventKind::kNone || name.ends_with("-compute");
    operations_.push_back(
        {*begin, *begin + *duration, static_cast<uint64_t>(step), {*pid, *tid}, kind, computes});
  }

  // False when no lane is named as we know it.
  bool Fill(Fragment* fragment) {
    std::map<std::pair<Worker, uint64_t>, std::vector<Span>> steps;
    uint32_t data_ranks = 0, stages = 0;
    for (const Span& operation : operations_) {
      const auto lane = lanes_.find(operation.lane);
      if (lane == lanes_.end() || lane->second.tensor_rank != 0) {
        ++left_out_;
        continue;
      }
      const Worker worker{operation.lane.first, lane->second.stage};
      data_ranks = std::max(data_ranks, worker.data_rank + 1);
      stages = std::max(stages, worker.stage + 1);
      steps[{worker, operation.step}].push_back(operation);
    }
    if (steps.empty()) return false;
    std::map<Worker, RankFragment> ranks;
    for (auto& [key, list] : steps) {
      const auto& [worker, step] = key;
      RankFragment& rank = ranks[worker];
      rank.rank = Rank(worker.stage * data_ranks + worker.data_rank);
      rank.world_size = data_ranks * stages;
      KeepStep(ToStep(StepId(step), &list), &rank);
    }
    for (auto& [worker, rank] : ranks) {
      rank.record.state.steps = rank.record.steps.size();
      rank.record.state.communicators.push_back({CommId(worker.stage + 1),
                                                 "pipeline stage " + std::to_string(worker.stage),
                                                 worker.data_rank,
                                                 data_ranks,
                                                 0,
                                                 0,
                                                 {}});
      fragment->ranks.push_back(std::move(rank));
    }
    fragment->absolute_time = false;
    fragment->notes.push_back(
        "the timeline shows workers, not ranks: number N is data-parallel rank N mod " +
        std::to_string(data_ranks) + " in pipeline stage N / " + std::to_string(data_ranks));
    if (left_out_ > 0) {
      fragment->notes.push_back(std::to_string(left_out_) +
                                " operations left out: no step, time or named lane, or of another "
                                "tensor-parallel rank than 0");
    }
    return true;
  }

 private:
  static std::optional<uint32_t> Number(std::string_view text) {
    uint32_t number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
      return std::nullopt;
    }
    return number < kMaxParallel ? std::optional(number) : std::nullopt;
  }

  void NameLane(std::pair<uint32_t, uint32_t> lane, const JsonEvent& event) {
    if (!args_.Parse(event.Raw("args")) || lanes_.size() >= kMaxParallel) return;
    const std::string_view name = args_.String("name");
    const auto stage = NumberAfter(name, "PP rank "), tensor = NumberAfter(name, "TP rank ");
    if (stage) lanes_[lane] = {*stage, tensor.value_or(0)};
  }

  static diag::RankStep ToStep(StepId number, std::vector<Span>* operations) {
    std::sort(operations->begin(), operations->end(),
              [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; });
    int64_t end = INT64_MIN, computed_to = INT64_MIN;
    uint64_t computed = 0;
    diag::RankStep step;
    for (const Span& operation : *operations) {
      end = std::max(end, operation.end_ns);
      if (operation.kind != EventKind::kNone) AddPhase(operation, &step.phases);
      if (!operation.computes) continue;
      const int64_t from = std::max(operation.begin_ns, computed_to);
      if (operation.end_ns > from) computed += static_cast<uint64_t>(operation.end_ns - from);
      computed_to = std::max(computed_to, operation.end_ns);
    }
    const int64_t begin = operations->front().begin_ns;
    step.step = number;
    step.start_unix_ns = static_cast<uint64_t>(std::max<int64_t>(0, begin));
    step.duration_ns = static_cast<uint64_t>(end - begin);
    step.communication_ns = step.duration_ns - std::min(step.duration_ns, computed);
    step.events = static_cast<uint32_t>(operations->size());
    return step;
  }

  static void AddPhase(const Span& operation, std::vector<diag::PhaseTime>* phases) {
    const auto at = std::find_if(phases->begin(), phases->end(),
                                 [&](const auto& phase) { return phase.kind == operation.kind; });
    diag::PhaseTime& phase = at != phases->end() ? *at : phases->emplace_back();
    const auto duration = static_cast<uint64_t>(operation.end_ns - operation.begin_ns);
    phase.kind = operation.kind;
    ++phase.count;
    phase.total_ns += duration;
    phase.longest_ns = std::max(phase.longest_ns, duration);
  }

  JsonArgs args_;
  std::vector<Span> operations_;
  std::map<std::pair<uint32_t, uint32_t>, Lane> lanes_;
  uint64_t left_out_ = 0;
};

}  // namespace

int RecogniseOperationTimeline(std::string_view head) {
  for (const std::string_view name : {"\"forward-compute\"", "\"backward-compute\""}) {
    if (head.find(name) != std::string_view::npos &&
        head.find("\"ph\"") != std::string_view::npos) {
      return 95;
    }
  }
  return 0;
}

Status ReadOperationTimeline(Input* input, Fragment* fragment) {
  JsonEvents events(input, {});
  Timeline timeline;
  JsonEvent event;
  while (events.Next(&event)) timeline.Take(event);
  for (std::string& note : events.Notes()) fragment->notes.push_back(std::move(note));
  if (!timeline.Fill(fragment)) {
    return Status::Error(
        "no operation in a lane named \"PP rank N, ...\": the lanes are named at the end of such "
        "files, so it may be cut off");
  }
  return Status::Ok();
}

}  // namespace flare::import

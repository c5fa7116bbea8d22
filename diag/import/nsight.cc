// SPDX-License-Identifier: Apache-2.0
// Nsight Systems exports (nsys export --type sqlite), schema 2 to 3.
//
//   CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET   what the devices did, by process and device
//   CUPTI_ACTIVITY_KIND_RUNTIME                    the calls that launched it, by correlation id
//   NVTX_EVENTS                                    ranges that the program marked: steps, phases
//   StringIds, TARGET_INFO_*, PROCESSES            names, devices, when it began, which process
//
// Any of them may be missing, and most columns too. Each process that used a device is one rank.
// Times count from the beginning of the session, whose moment is told.
#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "diag/import/importers.h"
#include "diag/import/json_args.h"
#include "diag/import/kineto_collectives.h"
#include "diag/import/kineto_names.h"
#include "diag/import/profile_builder.h"
#include "diag/import/text_scan.h"
#include "diag/import/untrusted_sqlite.h"

namespace flare::import {
namespace {

using Row = UntrustedSqlite::Row;

constexpr size_t kMostProcesses = 4096;
constexpr size_t kMostNames = size_t{1} << 21;
constexpr size_t kNameBytes = 1024;
constexpr size_t kMostRanges = size_t{1} << 20;
constexpr int64_t kLatestNs = int64_t{1} << 62;
// Ids of processes and threads as Nsight writes them: 24 bits of thread, 24 of process above them.
constexpr int64_t kThreadMask = 0xffffff;
constexpr int kThreadBits = 24;

struct Process {
  ProfileBuilder builder;
  KinetoCollectives collectives;
  std::map<uint32_t, uint64_t> devices;  // kernels on each
  int64_t pid = 0;
  std::string name;
};

// A range that may mark a step.
struct Range {
  int64_t process = 0, thread = 0;
  int64_t begin_ns = 0, end_ns = 0;
  std::optional<uint64_t> number;  // in its name
};

// "step 12", "Iteration_7", "train_step": the words without the number at the end.
struct StepName {
  std::string words;
  std::optional<uint64_t> number;
};

std::optional<StepName> StepNamed(std::string_view text) {
  StepName name;
  uint64_t number = 0;
  if (ParseProfilerStep(text, &number)) return StepName{"profilerstep", number};
  if (text.size() > 64) return std::nullopt;
  size_t end = text.size();
  while (end > 0 && IsDigit(text[end - 1])) --end;
  if (end < text.size()) name.number = WholeNumber<uint64_t>(text.substr(end));
  for (const char c : text.substr(0, end)) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalpha(byte)) {
      name.words.push_back(static_cast<char>(std::tolower(byte)));
    } else if (!name.words.empty() && name.words.back() != ' ') {
      name.words.push_back(' ');
    }
  }
  while (name.words.ends_with(' ')) name.words.pop_back();
  for (const std::string_view known : {"step", "iteration", "iter", "train step", "training step",
                                       "train iteration", "global step", "batch", "train batch"}) {
    if (name.words == known) return name;
  }
  return std::nullopt;
}

bool Plausible(std::optional<int64_t> begin, std::optional<int64_t> end) {
  return begin && end && *begin >= 0 && *end >= *begin && *end < kLatestNs;
}

class NsightReader {
 public:
  explicit NsightReader(UntrustedSqlite* database) : database_(*database) {}

  void Read() {
    Keep(database_.ForEachRow("StringIds", {"id", "value"}, [&](const Row& row) {
      const auto id = row.Int(0);
      if (id && names_.size() < kMostNames) {
        names_.emplace(*id, std::string(row.Text(1).substr(0, kNameBytes)));
      }
      return true;
    }));
    ReadDevice();
    ReadCalls();
    ReadRanges();
    MarkSteps();
  }

  Status End(Fragment* fragment) {
    ReadFacts(fragment);
    size_t idle = 0;
    for (auto& [id, process] : processes_) {
      if (process->devices.empty()) {
        idle += process->builder.empty() ? 0 : 1;
        continue;
      }
      AddRank(process.get(), fragment);
    }
    for (std::string& note : broken_) fragment->notes.push_back(std::move(note));
    if (fragment->ranks.empty()) {
      return Status::Error("an Nsight Systems export without device work" +
                           (broken_.empty() ? "" : ": " + fragment->notes.back()));
    }
    if (idle > 0)
      fragment->notes.push_back(Counted(idle, "process") + " without device work left out");
    if (left_out_ > 0) {
      fragment->notes.push_back(Counted(left_out_, "row") + " with impossible times left out");
    }
    if (graphs_ > 0) {
      fragment->notes.push_back(Counted(graphs_, "graph launch") +
                                " recorded as a whole: their kernels are not told "
                                "(--cuda-graph-trace=node tells them)");
    }
    if (!marked_) {
      fragment->notes.push_back(
          "no steps are marked (NVTX): the recording is taken as one stretch");
    }
    return Status::Ok();
  }

 private:
  // What could be read of a broken file is used.
  void Keep(const Status& status) {
    if (!status.ok()) broken_.push_back("only a part could be read of " + status.message());
  }

  Process* Find(std::optional<int64_t> global_id) {
    // Old schemas lack the column: then there is one process.
    const int64_t id = global_id.value_or(0) & ~kThreadMask;
    const auto known = processes_.find(id);
    if (known != processes_.end()) return known->second.get();
    if (processes_.size() >= kMostProcesses) {
      ++left_out_;
      return nullptr;
    }
    auto process = std::make_unique<Process>();
    process->pid = (id >> kThreadBits) & kThreadMask;
    return (processes_[id] = std::move(process)).get();
  }

  std::string_view NameOf(std::optional<int64_t> id) const {
    const auto known = id ? names_.find(*id) : names_.end();
    return known == names_.end() ? std::string_view() : std::string_view(known->second);
  }

  // Columns 0 to 5 of a row of a device table.
  std::optional<DeviceActivity> Activity(const Row& row) {
    const auto begin = row.Int(0), end = row.Int(1);
    if (!Plausible(begin, end)) {
      ++left_out_;
      return std::nullopt;
    }
    DeviceActivity activity;
    activity.begin_ns = *begin;
    activity.duration_ns = *end - *begin;
    activity.device = static_cast<uint32_t>(std::clamp<int64_t>(row.Int(2).value_or(0), 0, 4095));
    activity.stream = static_cast<uint64_t>(row.Int(3).value_or(0));
    activity.correlation = static_cast<uint64_t>(std::max<int64_t>(row.Int(4).value_or(0), 0));
    return activity;
  }

  void ReadDevice() {
    const JsonArgs none;
    Keep(database_.ForEachRow("CUPTI_ACTIVITY_KIND_KERNEL",
                              {"start", "end", "deviceId", "streamId", "correlationId", "globalPid",
                               "demangledName", "shortName"},
                              [&](const Row& row) {
                                std::optional<DeviceActivity> activity = Activity(row);
                                Process* process = activity ? Find(row.Int(5)) : nullptr;
                                if (process == nullptr) return true;
                                std::string_view name = NameOf(row.Int(6));
                                if (name.empty()) name = NameOf(row.Int(7));
                                ++process->devices[activity->device];
                                if (process->builder.ClassOf(name) == KernelClass::kCommunication) {
                                  activity->tag =
                                      process->collectives.AddKernel(name, *activity, 0, none);
                                }
                                process->builder.AddKernel(name, *activity);
                                return true;
                              }));
    for (const char* table : {"CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"}) {
      Keep(database_.ForEachRow(
          table, {"start", "end", "deviceId", "streamId", "correlationId", "globalPid"},
          [&](const Row& row) {
            const std::optional<DeviceActivity> activity = Activity(row);
            Process* process = activity ? Find(row.Int(5)) : nullptr;
            if (process != nullptr) process->builder.AddMemoryOperation(*activity);
            return true;
          }));
    }
    Keep(database_.ForEachRow("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {"start"}, [&](const Row&) {
      ++graphs_;
      return true;
    }));
  }

  void ReadCalls() {
    Keep(database_.ForEachRow(
        "CUPTI_ACTIVITY_KIND_RUNTIME", {"start", "end", "correlationId", "globalTid", "nameId"},
        [&](const Row& row) {
          const auto begin = row.Int(0), end = row.Int(1);
          if (!Plausible(begin, end)) {
            ++left_out_;
            return true;
          }
          const std::string_view name = NameOf(row.Int(4));
          Process* process = Find(row.Int(3));
          if (process == nullptr) return true;
          const RuntimeCall call = ClassifyRuntimeCall(name);
          const bool graph = call == RuntimeCall::kGraphLaunch;
          const int64_t correlation = row.Int(2).value_or(0);
          if ((graph || call == RuntimeCall::kLaunch) && correlation > 0) {
            process->builder.AddLaunch(static_cast<uint64_t>(correlation), *begin, graph);
          } else if (call == RuntimeCall::kSynchronize && name.starts_with("cuda")) {
            // Driver calls lie within those of the runtime.
            process->builder.AddSpan(EventKind::kSynchronize, "", *begin, *end - *begin);
          }
          return true;
        }));
  }

  void ReadRanges() {
    Keep(database_.ForEachRow(
        "NVTX_EVENTS", {"start", "end", "text", "textId", "globalTid", "eventType"},
        [&](const Row& row) {
          const auto begin = row.Int(0), end = row.Int(1);
          if (!end) return true;  // a mark, or a range that was not closed
          if (!Plausible(begin, end)) {
            ++left_out_;
            return true;
          }
          std::string_view text = row.Text(2);
          if (text.empty()) text = NameOf(row.Int(3));
          const auto thread = row.Int(4);
          if (const std::optional<StepName> step = StepNamed(text); step && thread) {
            std::vector<Range>& ranges = step_ranges_[step->words];
            if (ranges.size() < kMostRanges) {
              ranges.push_back(
                  {*thread & ~kThreadMask, *thread & kThreadMask, *begin, *end, step->number});
            }
            return true;
          }
          const HostPhase phase = PhaseOfAnnotation(text);
          if (phase.kind == EventKind::kNone) return true;
          if (Process* process = Find(thread)) {
            process->builder.AddSpan(phase.kind, phase.name, *begin, *end - *begin);
          }
          return true;
        }));
  }

  // Of several kinds of step ranges the one with the most ranges counts, if none of its ranges lie
  // within each other: names such as "step" are given to other things too.
  void MarkSteps() {
    const std::vector<Range>* best = nullptr;
    for (auto& [words, ranges] : step_ranges_) {
      std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
        return std::tie(a.process, a.thread, a.begin_ns) <
               std::tie(b.process, b.thread, b.begin_ns);
      });
      const bool nested =
          std::adjacent_find(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
            return a.process == b.process && a.thread == b.thread && b.begin_ns < a.end_ns;
          }) != ranges.end();
      if (!nested && (best == nullptr || ranges.size() > best->size())) best = &ranges;
    }
    if (best == nullptr) return;
    std::map<int64_t, int64_t> threads;  // of each process the first that marks steps
    std::map<int64_t, uint64_t> counts;
    for (const Range& range : *best) {
      if (threads.try_emplace(range.process, range.thread).first->second != range.thread) continue;
      const auto process = processes_.find(range.process);
      if (process == processes_.end()) continue;
      const uint64_t count = counts[range.process]++;
      process->second->builder.AddStep(range.number.value_or(count), range.begin_ns, range.end_ns);
      marked_ = true;
    }
  }

  void ReadFacts(Fragment* fragment) {
    Keep(
        database_.ForEachRow("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"}, [&](const Row& row) {
          const int64_t utc = row.Int(0).value_or(0);
          if (utc > 0 && utc < kLatestNs) origin_ns_ = utc;
          return false;
        }));
    fragment->absolute_time = origin_ns_ > 0;
    if (!fragment->absolute_time) fragment->notes.push_back("times count from an unknown origin");
    Keep(database_.ForEachRow("TARGET_INFO_GPU", {"id", "name"}, [&](const Row& row) {
      const int64_t id = row.Int(0).value_or(-1);
      if (id >= 0 && id < 4096) {
        devices_[static_cast<uint32_t>(id)] = std::string(row.Text(1).substr(0, 128));
      }
      return true;
    }));
    Keep(database_.ForEachRow("TARGET_INFO_SYSTEM_ENV", {"name", "value"}, [&](const Row& row) {
      if (row.Text(0) == "Hostname") node_ = std::string(row.Text(1).substr(0, 128));
      return true;
    }));
  }

  void AddRank(Process* process, Fragment* fragment) {
    for (const auto& [device, kernels] : process->devices) {
      const auto known = devices_.find(device);
      if (known != devices_.end()) process->builder.AddDeviceName(known->second);
    }
    process->collectives.Finish(&process->builder, &fragment->notes);
    Profile profile = process->builder.Build(origin_ns_ > 0 ? origin_ns_ : 1);
    RankFragment& rank = fragment->ranks.emplace_back();
    diag::RankRecord& record = rank.record;
    record.node = node_;
    record.pid = process->pid;
    record.steps.assign(std::make_move_iterator(profile.steps.begin()),
                        std::make_move_iterator(profile.steps.end()));
    if (profile.has_device) record.recording = std::move(profile.device);
    record.state.communicators = std::move(profile.communicators);
    rank.collective_ends = std::move(profile.collective_ends);
    if (!profile.pseudo_steps) record.state.steps = record.steps.size();
    for (std::string& note : profile.notes) fragment->notes.push_back(std::move(note));
    if (process->devices.size() > 1) {
      fragment->notes.push_back(Counted(process->devices.size(), "device") +
                                " of one process: times are unions over all of them");
    }
  }

  UntrustedSqlite& database_;
  std::unordered_map<int64_t, std::string> names_;
  std::map<int64_t, std::unique_ptr<Process>> processes_;
  std::map<std::string, std::vector<Range>> step_ranges_;  // by their words
  std::map<uint32_t, std::string> devices_;
  std::string node_;
  int64_t origin_ns_ = 0;
  bool marked_ = false;
  uint64_t left_out_ = 0, graphs_ = 0;
  std::vector<std::string> broken_;
};

}  // namespace

// Which tables there are shows only when the file is opened; no other importer reads SQLite.
int RecogniseNsight(std::string_view head) {
  return head.starts_with(std::string_view("SQLite format 3\0", 16)) ? 60 : 0;
}

Status ReadNsight(Input* input, Fragment* fragment) {
  const Result<std::string> path = input->PlainPath();
  if (!path.ok()) return path.status();
  Result<std::unique_ptr<UntrustedSqlite>> database = UntrustedSqlite::Open(*path);
  if (!database.ok()) return database.status();
  const bool nsight =
      (*database)->HasTable("StringIds") &&
      ((*database)->HasTable("CUPTI_ACTIVITY_KIND_KERNEL") ||
       (*database)->HasTable("META_DATA_EXPORT") || (*database)->HasTable("ANALYSIS_DETAILS"));
  if (!nsight) return Status::Error("a SQLite database, but no export of Nsight Systems");
  auto reader = std::make_unique<NsightReader>(database->get());
  reader->Read();
  return reader->End(fragment);
}

}  // namespace flare::import

// SPDX-License-Identifier: Apache-2.0
#include "diag/import/profile_builder.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "diag/import/device_fold.h"
#include "diag/import/json_args.h"

namespace flare::import {
namespace {

constexpr int64_t kLatest = int64_t{1} << 61;  // sums of three such times still fit
constexpr size_t kMaxNameBytes = 200;
constexpr size_t kMaxClassNames = size_t{1} << 16;
constexpr size_t kMaxGemmShapes = size_t{1} << 16;
constexpr size_t kMaxPhases = 64;  // per step; further ones share the entry without a name
constexpr size_t kMaxCommunicators = 4096;
constexpr size_t kMaxDevices = 64;
// Sequence numbers missing in a row that are written as "not observed" rather than as a new entry.
constexpr uint64_t kMaxGap = 16;

// Members begin and end together only in what all members give to and take from: the root of the
// others may be done before they came, and the ends of a pair are no collective at all.
bool Symmetric(Operation operation) {
  switch (operation) {
    case Operation::kSend:
    case Operation::kRecv:
    case Operation::kBroadcast:
    case Operation::kReduce:
    case Operation::kGather:
    case Operation::kScatter:
      return false;
    default:
      return true;
  }
}

bool PointToPoint(Operation operation) {
  return operation == Operation::kSend || operation == Operation::kRecv;
}

void AddToPhases(EventKind kind, const std::string& name, uint64_t duration_ns,
                 std::vector<diag::PhaseTime>* phases) {
  for (diag::PhaseTime& phase : *phases) {
    if (phase.kind != kind || phase.name != name) continue;
    ++phase.count;
    phase.total_ns += duration_ns;
    phase.longest_ns = std::max(phase.longest_ns, duration_ns);
    return;
  }
  if (phases->size() >= kMaxPhases && !name.empty())
    return AddToPhases(kind, "", duration_ns, phases);
  phases->push_back({kind, name, 1, duration_ns, duration_ns});
}

void AddToOperations(const Collective& call, std::vector<diag::OperationTotals>* operations) {
  const auto at = std::find_if(operations->begin(), operations->end(), [&](const auto& totals) {
    return totals.operation == call.operation && totals.data_type == call.data_type;
  });
  diag::OperationTotals& totals = at != operations->end() ? *at : operations->emplace_back();
  totals.operation = call.operation;
  totals.data_type = call.data_type;
  ++totals.count;
  totals.bytes += call.bytes;
  totals.total_ns += static_cast<uint64_t>(call.duration_ns);
}

uint64_t UnionOf(std::vector<std::pair<int64_t, int64_t>> intervals) {
  std::sort(intervals.begin(), intervals.end());
  uint64_t total = 0;
  int64_t reach = INT64_MIN;
  for (const auto& [begin, end] : intervals) {
    const int64_t from = std::max(begin, reach);
    if (end > from) total += static_cast<uint64_t>(end - from);
    reach = std::max(reach, end);
  }
  return total;
}

// Calls of one step on one communicator, in order of sequence, as one entry or, with gaps, several.
// A sequence number that comes twice (a group of kernels for one call) lasts from the first begin
// to the last end.
void AddCommunicatorSteps(const std::vector<const Collective*>& calls, diag::RankStep* step) {
  diag::CommunicatorStep* entry = nullptr;
  uint64_t last = 0;
  int64_t begin = 0, end = 0;
  for (const Collective* call : calls) {
    const bool counted = !PointToPoint(call->operation);
    if (entry == nullptr || (counted && entry->count > 0 && call->sequence > last + kMaxGap)) {
      entry = &step->communicators.emplace_back();
      entry->communicator = call->communicator;
    }
    AddToOperations(*call, &entry->operations);
    if (!counted) continue;
    const int64_t call_end = call->begin_ns + call->duration_ns;
    if (entry->count > 0 && call->sequence == last) {
      begin = std::min(begin, call->begin_ns);
      end = std::max(end, call_end);
    } else {
      if (entry->count == 0) entry->first_sequence = call->sequence;
      ++entry->count;
      begin = call->begin_ns;
      end = call_end;
      last = call->sequence;
    }
    entry->duration_us.resize(last - entry->first_sequence + 1);
    if (!call->observed || !Symmetric(call->operation)) continue;
    const int64_t us = std::max<int64_t>(1, (end - begin + 500) / 1000);  // 0 is "not observed"
    entry->duration_us.back() = static_cast<uint32_t>(std::min<int64_t>(us, UINT32_MAX));
  }
}

}  // namespace

bool ProfileBuilder::Plausible(int64_t begin_ns, int64_t duration_ns) {
  const bool fits = begin_ns > -kLatest && begin_ns < kLatest && duration_ns >= 0 &&
                    duration_ns < KernelRow::kMaxDuration;
  if (!fits) LeaveOut("with an impossible time or duration");
  return fits;
}

KernelClass ProfileBuilder::ClassOf(std::string_view name) {
  const uint64_t hash = std::hash<std::string_view>{}(name);
  const auto known = classes_.find(hash);
  if (known != classes_.end()) return known->second;
  if (classes_.size() >= kMaxClassNames) classes_.clear();
  return classes_[hash] = ClassifyKernel(name);
}

uint32_t ProfileBuilder::NameId(std::string_view name) {
  const std::string kept(name.substr(0, kMaxNameBytes));
  const auto known = name_ids_.find(kept);
  if (known != name_ids_.end()) return known->second;
  if (names_.empty()) names_.emplace_back();  // 0 stands for what has no name, or one too many
  if (kept.empty() || names_.size() >= kMaxNames) return 0;
  names_.push_back(CleanUtf8(kept));
  return name_ids_[kept] = static_cast<uint32_t>(names_.size() - 1);
}

void ProfileBuilder::AddKernel(std::string_view name, const DeviceActivity& activity) {
  if (!Plausible(activity.begin_ns, activity.duration_ns)) return;
  if (table_.rows().size() >= kMaxKernels) return LeaveOut("beyond the first 16 million kernels");
  KernelRow row;
  row.begin_ns = activity.begin_ns;
  row.duration_ns = static_cast<uint64_t>(activity.duration_ns);
  row.launch = static_cast<int64_t>(activity.correlation);
  row.kernel_class = static_cast<uint64_t>(ClassOf(name));
  row.tag = activity.tag;
  table_.Add(row, activity.device, activity.stream);
}

void ProfileBuilder::AddMemoryOperation(const DeviceActivity& activity) {
  if (!Plausible(activity.begin_ns, activity.duration_ns)) return;
  if (table_.rows().size() >= kMaxKernels) return LeaveOut("beyond the first 16 million kernels");
  KernelRow row;
  row.begin_ns = activity.begin_ns;
  row.duration_ns = static_cast<uint64_t>(activity.duration_ns);
  row.launch = static_cast<int64_t>(activity.correlation);
  row.kernel_class = static_cast<uint64_t>(KernelClass::kMemory);
  row.memory_operation = 1;
  table_.Add(row, activity.device, activity.stream);
}

void ProfileBuilder::AddLaunch(uint64_t correlation, int64_t begin_ns, bool many) {
  if (correlation == 0 || !Plausible(begin_ns, 0)) return;
  if (!table_.AddLaunch(correlation, begin_ns, many, kMaxLaunches)) {
    LeaveOut("beyond 16 million launches without a kernel");
  }
}

void ProfileBuilder::AddCollective(const Collective& collective) {
  if (!Plausible(collective.begin_ns, collective.duration_ns)) return;
  if (collectives_.size() >= kMaxCollectives)
    return LeaveOut("beyond the first million collectives");
  collectives_.push_back(collective);
  first_ns_ = std::min(first_ns_, collective.begin_ns);
  last_ns_ = std::max(last_ns_, collective.begin_ns + collective.duration_ns);
}

void ProfileBuilder::AddCommunicator(CommId id, std::string_view name, uint32_t group_rank,
                                     uint32_t group_size) {
  if (communicators_.size() >= kMaxCommunicators && !communicators_.contains(id)) return;
  diag::CommunicatorState& state = communicators_[id];
  state.communicator = id;
  if (state.name.empty()) state.name = name.substr(0, kMaxNameBytes);
  state.group_rank = group_rank;
  state.group_size = std::max(state.group_size, group_size);
}

void ProfileBuilder::AddSpan(EventKind kind, std::string_view name, int64_t begin_ns,
                             int64_t duration_ns) {
  if (!Plausible(begin_ns, duration_ns)) return;
  if (spans_.size() >= kMaxSpans) return LeaveOut("beyond the first 4 million host calls");
  spans_.push_back({begin_ns, duration_ns, NameId(name), kind});
  first_ns_ = std::min(first_ns_, begin_ns);
  last_ns_ = std::max(last_ns_, begin_ns + duration_ns);
}

void ProfileBuilder::AddStep(uint64_t number, int64_t begin_ns, int64_t end_ns) {
  if (!Plausible(begin_ns, 0) || !Plausible(end_ns, 0)) return;
  if (end_ns < begin_ns) return LeaveOut("with an impossible time or duration");
  if (number >= diag::kFirstPseudoStep) return LeaveOut("with an impossible step number");
  if (steps_.size() >= kMaxSteps) return LeaveOut("beyond the first 131072 steps");
  steps_.push_back({number, begin_ns, end_ns});
}

void ProfileBuilder::AddDeviceName(std::string_view name) {
  const std::string kept(name.substr(0, kMaxNameBytes));
  if (kept.empty() || devices_.size() >= kMaxDevices) return;
  if (std::find(devices_.begin(), devices_.end(), kept) == devices_.end()) devices_.push_back(kept);
}

uint32_t ProfileBuilder::GemmShape(uint32_t batch, uint32_t m, uint32_t n, uint32_t k,
                                   DataType data_type) {
  const std::array<uint32_t, 5> key{batch, m, n, k, static_cast<uint32_t>(data_type)};
  const auto known = gemm_ids_.find(key);
  if (known != gemm_ids_.end()) return known->second;
  if (gemms_.size() >= kMaxGemmShapes) return 0;
  diag::GemmTotals shape;
  shape.batch = batch;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  shape.data_type = data_type;
  gemms_.push_back(shape);
  return gemm_ids_[key] = static_cast<uint32_t>(gemms_.size());
}

std::vector<int64_t> ProfileBuilder::CommunicationLaunches(size_t count) {
  std::vector<int64_t> launches(count, kUnknownTime);
  table_.Match();
  for (const KernelRow& row : table_.rows()) {
    if (row.kernel_class != static_cast<uint64_t>(KernelClass::kCommunication)) continue;
    if (row.launched && row.tag > 0 && row.tag <= count) launches[row.tag - 1] = row.launch;
  }
  return launches;
}

bool ProfileBuilder::empty() const {
  return table_.rows().empty() && collectives_.empty() && spans_.empty() && steps_.empty();
}

// Orders the marks, gives each the end of what it owns, and keeps the last ones.
void ProfileBuilder::ArrangeSteps(Profile* profile) {
  std::sort(steps_.begin(), steps_.end(),
            [](const Step& a, const Step& b) { return a.begin_ns < b.begin_ns; });
  std::vector<Step> kept;
  size_t odd = 0;
  for (const Step& step : steps_) {
    if (!kept.empty() && step.number <= kept.back().number) {
      odd += step.number < kept.back().number;
      continue;
    }
    if (!kept.empty()) {
      Step& before = kept.back();
      const bool next = step.number == before.number + 1;
      before.end_ns = next ? step.begin_ns : std::min(before.end_ns, step.begin_ns);
    }
    kept.push_back(step);
  }
  if (odd > 0) {
    profile->notes.push_back(std::to_string(odd) +
                             " step marks with numbers that run backwards left out");
  }
  if (kept.size() > kMostSteps) {
    profile->notes.push_back("of " + std::to_string(kept.size()) + " steps the last " +
                             std::to_string(kMostSteps) + " are used");
    kept.erase(kept.begin(), kept.end() - static_cast<ptrdiff_t>(kMostSteps));
  }
  profile->pseudo_steps = kept.empty();
  if (kept.empty() && first_ns_ <= last_ns_) {
    // One past the end, so that the last instant belongs to it too.
    kept.push_back({diag::kFirstPseudoStep, first_ns_, last_ns_ + 1});
  }
  steps_ = std::move(kept);
}

uint32_t ProfileBuilder::StepAt(int64_t time_ns) const {
  const auto after =
      std::upper_bound(steps_.begin(), steps_.end(), time_ns,
                       [](int64_t t, const Step& step) { return t < step.begin_ns; });
  if (after == steps_.begin() || time_ns >= (after - 1)->end_ns) return KernelRow::kNoStep;
  return static_cast<uint32_t>(after - steps_.begin() - 1);
}

void ProfileBuilder::FillSteps(Profile* profile) {
  std::vector<DeviceFold> folds(steps_.size());
  DeviceFold whole, outside;
  for (const KernelRow& row : table_.rows()) {
    uint32_t step = StepAt(row.launched ? row.launch : row.begin_ns);
    // A launch before the first host event we know of still belongs to the only stretch there is.
    if (step == KernelRow::kNoStep && profile->pseudo_steps) step = 0;
    (step == KernelRow::kNoStep ? outside : folds[step]).Add(row, true);
    whole.Add(row, false);
  }
  if (!outside.empty() && !steps_.empty()) {
    profile->notes.push_back(std::to_string(outside.rows()) +
                             " kernels and copies were launched outside of the marked steps");
  }
  whole.AddDetails(outside);
  for (size_t i = 0; i < folds.size(); ++i) {
    whole.AddDetails(folds[i]);
    if (folds[i].empty()) continue;
    diag::RankStep& step = profile->steps[i];
    step.device = folds[i].Finish(gemms_);
    step.device->devices = devices_;
    step.communication_ns = step.device->communication_ns;
    step.events += folds[i].rows();
    if (i == 0 || steps_[i].number != steps_[i - 1].number + 1) continue;
    const int64_t begin = folds[i].first_kernel_ns(), end = folds[i - 1].last_kernel_end_ns();
    if (begin != INT64_MAX && end != INT64_MIN && begin > end) {
      step.device->inter_step_ns = static_cast<uint64_t>(begin - end);
    }
  }
  profile->device = whole.Finish(gemms_);
  profile->device.devices = devices_;
  profile->has_device = !whole.empty();
}

void ProfileBuilder::FillSpans(Profile* profile) {
  for (const Span& span : spans_) {
    const uint32_t at = StepAt(span.begin_ns);
    if (at == KernelRow::kNoStep) continue;
    diag::RankStep& step = profile->steps[at];
    AddToPhases(span.kind, names_[span.name], static_cast<uint64_t>(span.duration_ns),
                &step.phases);
    ++step.events;
  }
}

void ProfileBuilder::FillCollectives(Profile* profile) {
  std::map<std::pair<uint32_t, CommId>, std::vector<const Collective*>> calls;
  std::map<uint32_t, std::vector<std::pair<int64_t, int64_t>>> intervals;
  for (const Collective& call : collectives_) {
    const int64_t launched = call.launched_ns == kUnknownTime ? call.begin_ns : call.launched_ns;
    const uint32_t at = profile->pseudo_steps ? 0 : StepAt(launched);
    if (at == KernelRow::kNoStep) continue;
    calls[{at, call.communicator}].push_back(&call);
    if (profile->steps[at].device && profile->steps[at].device->communication_kernels > 0) continue;
    if (!call.observed) continue;
    intervals[at].push_back({call.begin_ns, call.begin_ns + call.duration_ns});
  }
  for (auto& [key, list] : calls) {
    std::stable_sort(list.begin(), list.end(), [](const Collective* a, const Collective* b) {
      return a->sequence < b->sequence;
    });
    diag::RankStep& step = profile->steps[key.first];
    AddCommunicatorSteps(list, &step);
    step.events += static_cast<uint32_t>(list.size());
  }
  // Without communication kernels the calls themselves are all there is (gloo).
  for (auto& [at, list] : intervals) profile->steps[at].communication_ns = UnionOf(std::move(list));
}

// Ends tell clocks apart: members of a symmetric collective end it together.
void ProfileBuilder::FillEnds(int64_t origin_ns, Profile* profile) {
  std::vector<CollectiveEnd>& ends = profile->collective_ends;
  for (const Collective& call : collectives_) {
    if (!call.observed || !Symmetric(call.operation)) continue;
    const int64_t at = origin_ns + call.begin_ns + call.duration_ns;
    if (at > 0) ends.push_back({call.communicator, call.sequence, static_cast<uint64_t>(at)});
  }
  std::sort(ends.begin(), ends.end(), [](const CollectiveEnd& a, const CollectiveEnd& b) {
    return a.at_unix_ns < b.at_unix_ns;
  });
  if (ends.size() <= kMostCollectiveEnds) return;
  ends.erase(ends.begin(), ends.end() - static_cast<ptrdiff_t>(kMostCollectiveEnds));
}

Profile ProfileBuilder::Build(int64_t origin_ns) {
  Profile profile;
  table_.Match();
  table_.SortByBegin();
  for (const KernelRow& row : table_.rows()) {
    first_ns_ = std::min({first_ns_, row.begin_ns, row.launched ? row.launch : row.begin_ns});
    last_ns_ = std::max(last_ns_, row.end_ns());
  }
  for (const Step& step : steps_) {
    first_ns_ = std::min(first_ns_, step.begin_ns);
    last_ns_ = std::max(last_ns_, step.end_ns);
  }
  ArrangeSteps(&profile);
  const auto unix_ns = [&](int64_t t) {
    return static_cast<uint64_t>(std::max<int64_t>(0, origin_ns + t));
  };
  for (const Step& step : steps_) {
    diag::RankStep& out = profile.steps.emplace_back();
    out.step = StepId(step.number);
    out.start_unix_ns = unix_ns(step.begin_ns);
    out.duration_ns = static_cast<uint64_t>(std::max<int64_t>(0, step.end_ns - step.begin_ns));
  }
  FillSteps(&profile);
  FillSpans(&profile);
  FillCollectives(&profile);
  FillEnds(origin_ns, &profile);
  for (auto& [id, state] : communicators_) profile.communicators.push_back(std::move(state));
  if (first_ns_ <= last_ns_) {
    profile.first_ns = static_cast<int64_t>(unix_ns(first_ns_));
    profile.last_ns = static_cast<int64_t>(unix_ns(last_ns_));
  }
  if (table_.streams_full()) profile.notes.push_back("streams beyond 4096 are taken as one");
  for (const auto& [reason, count] : left_out_) {
    profile.notes.push_back(std::to_string(count) + (count == 1 ? " event " : " events ") + reason +
                            " left out");
  }
  *this = ProfileBuilder();
  return profile;
}

}  // namespace flare::import

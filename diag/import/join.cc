// SPDX-License-Identifier: Apache-2.0
#include "diag/import/join.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "diag/import/clocks.h"
#include "diag/import/group.h"
#include "diag/import/number_ranks.h"
#include "diag/import/rank_parts.h"

namespace flare::import {
namespace {

// What steps of a whole job may take in memory; of more, the last ones of each rank are kept.
constexpr uint64_t kMostStepBytes = uint64_t{1} << 30;

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

uint64_t BytesOf(const QuantileSketch& sketch) {
  return sketch.buckets().size() * sizeof(QuantileSketch::Bucket);
}

uint64_t BytesOf(const diag::RankStep& step) {
  uint64_t bytes = sizeof(step) + step.phases.size() * sizeof(diag::PhaseTime) +
                   step.communicators.size() * sizeof(diag::CommunicatorStep);
  for (const diag::CommunicatorStep& comm : step.communicators) {
    bytes += comm.duration_us.size() * sizeof(uint32_t) +
             comm.operations.size() * sizeof(diag::OperationTotals);
  }
  if (!step.device) return bytes;
  bytes += BytesOf(step.device->compute_issue_latency) +
           BytesOf(step.device->communication_issue_latency) +
           step.device->gemms.size() * sizeof(diag::GemmTotals);
  for (const diag::KernelTotals& kernels : step.device->classes) {
    bytes += sizeof(kernels) + BytesOf(kernels.duration);
  }
  return bytes;
}

// Processes without a number: the rank with the same pid, if one file shows only numbers and the
// other only pids; else the next free number.
void NumberRest(std::vector<Fragment>* files, std::vector<std::string>* notes) {
  std::multimap<int64_t, const RankFragment*> by_pid;
  std::set<Rank> taken;
  for (const Fragment& file : *files) {
    for (const RankFragment& rank : file.ranks) {
      if (!rank.rank) continue;
      taken.insert(*rank.rank);
      if (rank.record.pid != 0) by_pid.emplace(rank.record.pid, &rank);
    }
  }
  Rank next;
  std::map<std::pair<std::string, int64_t>, Rank> numbered;  // one process in several dumps
  size_t guessed = 0;
  for (Fragment& file : *files) {
    for (RankFragment& rank : file.ranks) {
      if (rank.rank) continue;
      std::set<Rank> known;
      const auto [first, last] = by_pid.equal_range(rank.record.pid);
      for (auto it = first; it != last; ++it) {
        const std::string& node = it->second->record.node;
        const bool fits = node.empty() || rank.record.node.empty() || node == rank.record.node;
        if (fits) known.insert(*it->second->rank);
      }
      if (known.size() == 1) {
        rank.rank = *known.begin();
        continue;
      }
      const std::pair process(rank.record.node, rank.record.pid);
      if (rank.record.pid != 0) {
        if (const auto found = numbered.find(process); found != numbered.end()) {
          rank.rank = found->second;
          continue;
        }
      }
      while (taken.contains(next)) ++next.value;
      taken.insert(next);
      rank.rank = next;
      if (rank.record.pid != 0) numbered[process] = next;
      ++guessed;
    }
  }
  if (guessed > 0) {
    notes->push_back(guessed == 1
                         ? "one process does not say which rank it is; it is called rank " +
                               std::to_string(next.value)
                         : std::to_string(guessed) +
                               " processes do not say which rank they are; they are "
                               "numbered in their order");
  }
}

// One rank being put together.
struct Building {
  RankFragment rank;
  std::string kind;
};

void KeepNewest(std::map<Rank, Building>* ranks, std::vector<std::string>* notes) {
  uint64_t bytes = 0, left_out = 0;
  for (const auto& [number, building] : *ranks) {
    left_out += building.rank.steps_left_out;
    for (const diag::RankStep& step : building.rank.record.steps) bytes += BytesOf(step);
  }
  for (auto& [number, building] : *ranks) {
    std::deque<diag::RankStep>& steps = building.rank.record.steps;
    size_t keep = std::min(steps.size(), kMostSteps);
    if (bytes > kMostStepBytes) {
      const double share = static_cast<double>(kMostStepBytes) / static_cast<double>(bytes);
      keep = std::min(keep, static_cast<size_t>(static_cast<double>(steps.size()) * share) + 1);
    }
    left_out += steps.size() - keep;
    steps.erase(steps.begin(), steps.end() - static_cast<ptrdiff_t>(keep));
  }
  if (left_out > 0) {
    notes->push_back("the first " + std::to_string(left_out) +
                     " steps of all ranks together are left out; the last ones are used");
  }
}

void Prefixed(std::vector<std::string> notes, const std::string& path,
              std::vector<std::string>* all) {
  for (std::string& note : notes) all->push_back(BaseName(path) + ": " + std::move(note));
}

// What many files say alike is said once: "16 files, _dump_0 and others: ...".
void AddFileNotes(const std::vector<Fragment>& files, std::vector<std::string>* all) {
  std::map<std::string_view, size_t> count;
  for (const Fragment& file : files) {
    for (const std::string& note : file.notes) ++count[note];
  }
  for (const Fragment& file : files) {
    for (const std::string& note : file.notes) {
      const auto found = count.find(note);
      if (found == count.end()) continue;
      const std::string who = found->second == 1 ? BaseName(file.path)
                                                 : std::to_string(found->second) + " files, " +
                                                       BaseName(file.path) + " and others";
      all->push_back(who + ": " + note);
      count.erase(found);
    }
  }
}

std::map<Rank, Building> BuildRanks(std::vector<Fragment>* files, std::vector<std::string>* notes) {
  std::map<Rank, Building> ranks;
  for (Fragment& file : *files) {
    for (RankFragment& rank : file.ranks) {
      if (rank.record.framework.empty()) rank.record.framework = file.framework;
      const auto [place, is_new] = ranks.try_emplace(*rank.rank);
      if (is_new) {
        place->second = {std::move(rank), file.kind};
        continue;
      }
      std::vector<std::string> said;
      MergeRank(std::move(rank), file.kind, &place->second.rank, &place->second.kind, &said);
      Prefixed(std::move(said), file.path, notes);
    }
  }
  return ranks;
}

uint64_t FirstMoment(const diag::Job& job) {
  uint64_t first = 0;
  const auto take = [&](uint64_t at) {
    if (at != 0 && (first == 0 || at < first)) first = at;
  };
  for (const auto& [rank, record] : job.ranks) {
    take(record.state.at_unix_ns);
    for (const diag::RankStep& step : record.steps) take(step.start_unix_ns);
  }
  if (first == 0) {
    for (const diag::HostSignal& signal : job.signals) take(signal.at_unix_ns);
  }
  return first;
}

JoinedJob Join(Group group) {
  JoinedJob joined;
  joined.label = std::move(group.label);
  joined.notes = std::move(group.notes);
  std::vector<Fragment>& files = group.fragments;
  for (const Fragment& file : files) joined.paths.push_back(file.path);
  AddFileNotes(files, &joined.notes);
  NumberRest(&files, &joined.notes);
  joined.absolute_time = AlignClocks(&files, &joined.notes);
  std::map<Rank, Building> ranks = BuildRanks(&files, &joined.notes);
  KeepNewest(&ranks, &joined.notes);
  diag::Job& job = joined.job;
  job.recorded = true;
  for (auto& [number, building] : ranks) {
    building.rank.record.rank = number;
    job.world_size = std::max({job.world_size, building.rank.world_size, number.value + 1});
    job.ranks.emplace(number, std::move(building.rank.record));
  }
  bool told_times = false;
  for (Fragment& file : files) {
    for (diag::HostSignal& signal : file.signals) {
      told_times = told_times || (file.absolute_time && signal.at_unix_ns != 0);
      job.signals.push_back(std::move(signal));
    }
  }
  std::stable_sort(job.signals.begin(), job.signals.end(),
                   [](const diag::HostSignal& a, const diag::HostSignal& b) {
                     return a.at_unix_ns < b.at_unix_ns;
                   });
  if (job.ranks.empty()) joined.absolute_time = told_times;
  joined.now_unix_ns = SettleMoment(&job, &joined.notes);
  job.first_seen_unix_ns = FirstMoment(job);
  job.last_heard_unix_ns = joined.now_unix_ns;
  return joined;
}

}  // namespace

std::vector<JoinedJob> JoinFragments(std::vector<Fragment> fragments) {
  NumberRanks(&fragments);
  std::vector<JoinedJob> jobs;
  for (Group& group : GroupFragments(std::move(fragments))) jobs.push_back(Join(std::move(group)));
  return jobs;
}

}  // namespace flare::import

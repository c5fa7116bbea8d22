// SPDX-License-Identifier: Apache-2.0
#include "diag/import/clocks.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "diag/import/rank_parts.h"

namespace flare::import {
namespace {

constexpr size_t kSharedToTrust = 3;           // collectives that must agree
constexpr int64_t kWorthShifting = 1'000'000;  // clocks nearer than this are left alone

using Ends = std::map<std::pair<uint64_t, uint64_t>, uint64_t>;

int64_t MedianOf(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

size_t EndCount(const Fragment& file) {
  size_t count = 0;
  for (const RankFragment& rank : file.ranks) count += rank.collective_ends.size();
  return count;
}

// What must be added to the clock of a file for its collectives to end with `known` ones.
struct Offset {
  size_t shared = 0;
  int64_t median_ns = 0;
  uint64_t spread_ns = 0;  // median distance from it
};

Offset OffsetTo(const Ends& known, const Fragment& file) {
  std::vector<int64_t> differences;
  for (const RankFragment& rank : file.ranks) {
    for (const CollectiveEnd& end : rank.collective_ends) {
      const auto other = known.find({end.communicator.value, end.sequence});
      if (other == known.end()) continue;
      differences.push_back(static_cast<int64_t>(other->second) -
                            static_cast<int64_t>(end.at_unix_ns));
    }
  }
  Offset offset;
  offset.shared = differences.size();
  if (differences.empty()) return offset;
  offset.median_ns = MedianOf(differences);
  for (int64_t& difference : differences) difference = std::abs(difference - offset.median_ns);
  offset.spread_ns = static_cast<uint64_t>(MedianOf(std::move(differences)));
  return offset;
}

void AddEnds(const Fragment& file, Ends* known) {
  for (const RankFragment& rank : file.ranks) {
    for (const CollectiveEnd& end : rank.collective_ends) {
      known->try_emplace({end.communicator.value, end.sequence}, end.at_unix_ns);
    }
  }
}

std::string Name(const Fragment& file) {
  const bool one = file.ranks.size() == 1 && file.ranks[0].rank;
  return one ? "rank " + std::to_string(file.ranks[0].rank->value)
             : file.path.substr(file.path.rfind('/') + 1);
}

std::string Milliseconds(uint64_t ns) {
  const uint64_t tenths = (ns + 50'000) / 100'000;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " ms";
}

void ShiftFile(int64_t offset_ns, Fragment* file) {
  for (RankFragment& rank : file->ranks) ShiftTimes(offset_ns, &rank);
  for (diag::HostSignal& signal : file->signals) ShiftTime(offset_ns, &signal.at_unix_ns);
}

void ForgetCommunicators(Fragment* file) {
  for (RankFragment& rank : file->ranks) {
    for (diag::RankStep& step : rank.record.steps) step.communicators.clear();
    rank.collective_ends.clear();
  }
}

uint64_t LastMoment(const Fragment& file) {
  uint64_t last = 0;
  for (const RankFragment& rank : file.ranks) last = std::max(last, WindowOf(rank).last_ns);
  return last;
}

// The file that the others are laid against: with absolute times if any, with most collectives.
Fragment* Reference(std::vector<Fragment>* files) {
  Fragment* best = nullptr;
  for (Fragment& file : *files) {
    if (EndCount(file) == 0) continue;
    const auto worth = [](const Fragment& f) { return std::pair(f.absolute_time, EndCount(f)); };
    if (best == nullptr || worth(file) > worth(*best)) best = &file;
  }
  return best;
}

class Aligner {
 public:
  Aligner(std::vector<Fragment>* files, std::vector<std::string>* notes)
      : files_(*files), notes_(*notes) {}

  bool Run() {
    if (Fragment* reference = Reference(&files_)) AlignTo(reference);
    const bool absolute = std::any_of(files_.begin(), files_.end(), [](const Fragment& f) {
      return f.absolute_time && LastMoment(f) != 0;
    });
    LayEnds(absolute);
    return absolute;
  }

 private:
  void AlignTo(Fragment* reference) {
    absolute_ = reference->absolute_time;
    AddEnds(*reference, &known_);
    if (!absolute_) adrift_.push_back(reference);
    std::vector<Fragment*> left;
    for (Fragment& file : files_) {
      if (&file != reference && EndCount(file) > 0) left.push_back(&file);
    }
    // Ranks may hang together over others: each pass can make more of them comparable.
    for (size_t before = left.size() + 1; left.size() < before;) {
      before = left.size();
      std::erase_if(left, [&](Fragment* file) { return AlignOne(file); });
    }
  }

  // False when the file shares too little with those aligned so far.
  bool AlignOne(Fragment* file) {
    const Offset offset = OffsetTo(known_, *file);
    if (offset.shared < kSharedToTrust) return false;
    if (offset.spread_ns > kPairsNs) {
      notes_.push_back(Name(*file) + ": its collectives do not end with those of the others (" +
                       Milliseconds(offset.spread_ns) + " apart, " + std::to_string(offset.shared) +
                       " compared); not compared with them");
      ForgetCommunicators(file);
      return true;
    }
    const bool told = file->absolute_time && absolute_;
    const auto distance = static_cast<uint64_t>(std::abs(offset.median_ns));
    if (told && distance >= kWorthShifting) {
      notes_.push_back(Name(*file) + ": its clock was " + Milliseconds(distance) +
                       (offset.median_ns < 0 ? " ahead" : " behind") + "; aligned by " +
                       std::to_string(offset.shared) + " collectives");
    }
    if (!told || distance >= kWorthShifting) ShiftFile(offset.median_ns, file);
    file->absolute_time = absolute_;
    if (!absolute_) adrift_.push_back(file);
    AddEnds(*file, &known_);
    return true;
  }

  // What has no origin ends with the rest; what was aligned stays together.
  void LayEnds(bool absolute) {
    uint64_t target = kNowhereNs;
    if (absolute) {
      target = 0;
      for (const Fragment& file : files_) {
        if (file.absolute_time) target = std::max(target, LastMoment(file));
      }
    }
    size_t laid = Lay(adrift_, target);
    for (Fragment& file : files_) {
      const bool with_others = std::find(adrift_.begin(), adrift_.end(), &file) != adrift_.end();
      if (!file.absolute_time && !with_others) laid += Lay({&file}, target);
    }
    if (laid > 1 || (laid > 0 && absolute)) {
      notes_.push_back("files without a common origin of time are laid so that they end together");
    }
  }

  static size_t Lay(const std::vector<Fragment*>& together, uint64_t target) {
    uint64_t last = 0;
    for (const Fragment* file : together) last = std::max(last, LastMoment(*file));
    for (Fragment* file : together) {
      if (last == 0) {  // logs: nothing tells where their times belong
        for (diag::HostSignal& signal : file->signals) signal.at_unix_ns = 0;
      } else {
        ShiftFile(static_cast<int64_t>(target) - static_cast<int64_t>(last), file);
      }
    }
    return last == 0 ? 0 : 1;
  }

  std::vector<Fragment>& files_;
  std::vector<std::string>& notes_;
  Ends known_;
  bool absolute_ = false;
  std::vector<Fragment*> adrift_;  // aligned with each other, but without an origin
};

}  // namespace

bool AlignClocks(std::vector<Fragment>* files, std::vector<std::string>* notes) {
  return Aligner(files, notes).Run();
}

}  // namespace flare::import

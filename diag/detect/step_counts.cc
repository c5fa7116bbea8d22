// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/step_counts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "diag/detect/words.h"

namespace flare::diag {
namespace {

struct Entry {
  const RankStep* step = nullptr;
  const CommunicatorStep* comm = nullptr;
};

// One step as all users of the communicator saw it, in order of rank.
struct Row {
  StepId step;
  std::vector<Entry> entries;
};

struct Table {
  CommId comm;
  std::vector<Rank> ranks;
  std::vector<Row> rows;  // complete ones only, in order of step
};

bool Complete(const RankStep& step) {
  return std::all_of(step.drops.begin(), step.drops.end(),
                     [](const DropCount& drop) { return drop.count == 0; });
}

std::vector<Table> Tabulate(const Job& job) {
  std::map<CommId, std::set<Rank>> users;
  std::map<CommId, std::map<StepId, std::map<Rank, Entry>>> cells;
  for (const auto& [rank, record] : job.ranks) {
    for (const RankStep& step : record.steps) {
      if (step.step.value >= kFirstPseudoStep) continue;
      for (const CommunicatorStep& comm : step.communicators) {
        if (comm.count == 0) continue;  // point-to-point only
        users[comm.communicator].insert(rank);
        if (Complete(step)) cells[comm.communicator][step.step][rank] = {&step, &comm};
      }
    }
  }
  std::vector<Table> tables;
  for (const auto& [comm, ranks] : users) {
    if (ranks.size() < 2) continue;
    Table table{comm, {ranks.begin(), ranks.end()}, {}};
    for (const auto& [step, row] : cells[comm]) {
      if (row.size() != ranks.size()) continue;
      Row complete{step, {}};
      for (const auto& [rank, entry] : row) complete.entries.push_back(entry);
      table.rows.push_back(std::move(complete));
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

// The value that most of them share; nothing without a strict majority.
template <typename T>
std::optional<T> MajorityOf(const std::vector<T>& values) {
  std::map<T, size_t> counts;
  for (const T& value : values) ++counts[value];
  for (const auto& [value, count] : counts) {
    if (2 * count > values.size()) return value;
  }
  return std::nullopt;
}

// Indices of ranks whose count in row `at` is not the one that they usually had before.
std::vector<size_t> OutOfOwnPattern(const Table& table, size_t at) {
  std::vector<size_t> odd;
  for (size_t r = 0; r < table.ranks.size(); ++r) {
    std::vector<uint32_t> before;
    for (size_t i = 0; i < at; ++i) before.push_back(table.rows[i].entries[r].comm->count);
    const std::optional<uint32_t> usual = MajorityOf(before);
    if (usual && table.rows[at].entries[r].comm->count != *usual) odd.push_back(r);
  }
  return odd;
}

std::vector<int64_t> Offsets(const Row& row) {
  std::vector<int64_t> offsets;
  const auto base = static_cast<int64_t>(row.entries.front().comm->first_sequence);
  for (const Entry& entry : row.entries) {
    offsets.push_back(static_cast<int64_t>(entry.comm->first_sequence) - base);
  }
  return offsets;
}

bool InLine(const std::vector<int64_t>& offsets) {
  return std::all_of(offsets.begin(), offsets.end(), [](int64_t o) { return o == 0; });
}

void Fill(const Table& table, size_t row, const std::vector<size_t>& odd,
          StepDisagreement* result) {
  result->communicator = table.comm;
  result->step = table.rows[row].step;
  for (size_t r = 0; r < table.ranks.size(); ++r) {
    const bool is_odd = std::find(odd.begin(), odd.end(), r) != odd.end();
    (is_odd ? result->odd : result->others).push_back(table.ranks[r]);
    const Entry& entry = table.rows[row].entries[r];
    (is_odd ? result->odd_count : result->usual_count) = entry.comm->count;
    result->since_unix_ns =
        std::max(result->since_unix_ns, entry.step->start_unix_ns + entry.step->duration_ns);
  }
}

// Ranks in line for a while, then one of them off by the same number ever after.
std::optional<StepDisagreement> FindShift(const Table& table) {
  const std::vector<Row>& rows = table.rows;
  if (rows.size() < kAlignedSteps + kConfirmedSteps) return std::nullopt;
  const std::vector<int64_t> now = Offsets(rows.back());
  if (InLine(now)) return std::nullopt;
  size_t first = rows.size();  // of the rows that are off by `now`
  while (first > 0 && Offsets(rows[first - 1]) == now) --first;
  if (rows.size() - first < kConfirmedSteps || first < kAlignedSteps) return std::nullopt;
  for (size_t i = first - kAlignedSteps; i < first; ++i) {
    if (!InLine(Offsets(rows[i]))) return std::nullopt;
  }
  std::vector<size_t> odd;
  const std::optional<int64_t> usual = MajorityOf(now);
  if (usual) {
    for (size_t r = 0; r < now.size(); ++r) {
      if (now[r] != *usual) odd.push_back(r);
    }
  } else {
    odd = OutOfOwnPattern(table, first - 1);
    if (odd.empty() || odd.size() == now.size()) return std::nullopt;
  }
  StepDisagreement result;
  Fill(table, first - 1, odd, &result);
  size_t reference = 0;
  while (std::find(odd.begin(), odd.end(), reference) != odd.end()) ++reference;
  result.difference = now[odd.front()] - now[reference];
  return result;
}

// A collective in the range that still ran at the end of the step is not in the hash.
bool AllSeen(const CommunicatorStep& comm) {
  return comm.count > 0 && comm.duration_us.size() == comm.count &&
         std::find(comm.duration_us.begin(), comm.duration_us.end(), 0u) == comm.duration_us.end();
}

// Only the root of a scatter passes the whole buffer.
bool HasScatter(const CommunicatorStep& comm) {
  return std::any_of(comm.operations.begin(), comm.operations.end(), [](const OperationTotals& o) {
    return o.operation == Operation::kScatter || o.operation == Operation::kUnknown;
  });
}

// What `a` did that `b` did not, in words; empty when the totals agree.
std::string OnlyIn(const CommunicatorStep& a, const CommunicatorStep& b) {
  for (const OperationTotals& mine : a.operations) {
    const bool shared =
        std::any_of(b.operations.begin(), b.operations.end(), [&](const OperationTotals& theirs) {
          return theirs.operation == mine.operation && theirs.data_type == mine.data_type &&
                 theirs.count == mine.count && theirs.bytes == mine.bytes;
        });
    if (shared) continue;
    return CountText(mine.count, "call") + " of " + OperationText(mine.operation) + " with " +
           BytesText(mine.bytes) + " " + DataTypeText(mine.data_type) + " in all";
  }
  return "";
}

// The same sequence numbers in the same step, and not the same calls.
std::optional<StepDisagreement> FindDifference(const Table& table) {
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const Row& row = table.rows[i];
    const CommunicatorStep& head = *row.entries.front().comm;
    bool comparable = true;
    std::vector<uint64_t> hashes;
    for (const Entry& entry : row.entries) {
      comparable = comparable && entry.comm->first_sequence == head.first_sequence &&
                   entry.comm->count == head.count && entry.comm->signature_hash != 0 &&
                   AllSeen(*entry.comm) && !HasScatter(*entry.comm);
      hashes.push_back(entry.comm->signature_hash);
    }
    if (!comparable || std::set<uint64_t>(hashes.begin(), hashes.end()).size() < 2) continue;
    std::vector<size_t> odd;
    if (const std::optional<uint64_t> usual = MajorityOf(hashes)) {
      for (size_t r = 0; r < hashes.size(); ++r) {
        if (hashes[r] != *usual) odd.push_back(r);
      }
    } else {
      for (size_t r = 0; r < hashes.size(); ++r) {
        const bool changed =
            i > 0 && (!OnlyIn(*row.entries[r].comm, *table.rows[i - 1].entries[r].comm).empty() ||
                      !OnlyIn(*table.rows[i - 1].entries[r].comm, *row.entries[r].comm).empty());
        if (changed) odd.push_back(r);
      }
      if (odd.size() == hashes.size()) odd.clear();
    }
    if (odd.empty()) continue;
    StepDisagreement result;
    Fill(table, i, odd, &result);
    size_t reference = 0;
    while (std::find(odd.begin(), odd.end(), reference) != odd.end()) ++reference;
    result.odd_call = OnlyIn(*row.entries[odd.front()].comm, *row.entries[reference].comm);
    result.usual_call = OnlyIn(*row.entries[reference].comm, *row.entries[odd.front()].comm);
    if (result.odd_call.empty() && result.usual_call.empty()) continue;  // cannot be explained
    return result;
  }
  return std::nullopt;
}

uint64_t SequenceAt(const RankStep& step, CommId communicator, bool* found) {
  for (const CommunicatorStep& comm : step.communicators) {
    if (comm.communicator != communicator || comm.count == 0) continue;
    *found = true;
    return comm.first_sequence;
  }
  *found = false;
  return 0;
}

}  // namespace

size_t StepsInLine(const RankRecord& a, const RankRecord& b, CommId communicator) {
  size_t in_line = 0;
  auto other = b.steps.begin();
  for (const RankStep& step : a.steps) {
    while (other != b.steps.end() && other->step < step.step) ++other;
    if (other == b.steps.end()) break;
    if (other->step != step.step || step.step.value >= kFirstPseudoStep) continue;
    bool in_a = false, in_b = false;
    const uint64_t first_a = SequenceAt(step, communicator, &in_a);
    const uint64_t first_b = SequenceAt(*other, communicator, &in_b);
    if (in_a && in_b && first_a == first_b) ++in_line;
  }
  return in_line;
}

std::vector<StepDisagreement> FindStepDisagreements(const Job& job) {
  std::vector<StepDisagreement> found;
  for (const Table& table : Tabulate(job)) {
    std::optional<StepDisagreement> shift = FindShift(table);
    if (!shift) shift = FindDifference(table);
    if (shift) found.push_back(std::move(*shift));
  }
  return found;
}

}  // namespace flare::diag

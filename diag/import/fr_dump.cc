// SPDX-License-Identifier: Apache-2.0
#include "diag/import/fr_dump.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "diag/import/kineto_names.h"

namespace flare::import {
namespace {

constexpr size_t kMostGroups = 1 << 16;
constexpr size_t kMostEntries = 1 << 20;
constexpr size_t kMostRanks = 1 << 20;  // of all groups together, times four

uint64_t UnixNs(const Value& value) {
  const std::optional<int64_t> time = value.integer();
  return time && *time > 0 ? static_cast<uint64_t>(*time) : 0;
}

// "[0, 1, 2]", as text or as a list.
std::vector<uint32_t> ParseRanks(const Value& value) {
  std::vector<uint32_t> ranks;
  for (const Value& item : value.items()) {
    const std::optional<int64_t> rank = item.integer();
    if (!rank || *rank < 0 || *rank > UINT32_MAX || ranks.size() >= kMostRanks) return {};
    ranks.push_back(static_cast<uint32_t>(*rank));
  }
  const std::string_view text = value.text();
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (*at < '0' || *at > '9') {
      ++at;
      continue;
    }
    uint32_t rank = 0;
    const auto parsed = std::from_chars(at, end, rank);
    if (parsed.ec != std::errc() || ranks.size() >= kMostRanks) return {};
    ranks.push_back(rank);
    at = parsed.ptr;
  }
  return ranks;
}

// Elements of all tensors; nothing when a size is not told or too large to be one.
std::optional<uint64_t> Elements(const Value& sizes, bool* unequal) {
  uint64_t all = 0, first = 0;
  bool any = false;
  for (const Value& tensor : sizes.items()) {
    uint64_t count = 1;
    for (const Value& size : tensor.items()) {
      const std::optional<int64_t> length = size.integer();
      if (!length || *length < 0) return std::nullopt;
      if (__builtin_mul_overflow(count, static_cast<uint64_t>(*length), &count))
        return std::nullopt;
    }
    if (any && count != first) *unequal = true;
    if (!any) first = count;
    any = true;
    if (__builtin_add_overflow(all, count, &all)) return std::nullopt;
  }
  if (!any) return std::nullopt;
  return all;
}

// "nccl:recv 0<-3" is a name, its place and the other's.
void ParseName(std::string_view profiling_name, FrEntry* entry) {
  const size_t colon = profiling_name.find(':');
  if (colon != std::string_view::npos) profiling_name.remove_prefix(colon + 1);
  const size_t space = profiling_name.find(' ');
  entry->name = profiling_name.substr(0, space);
  entry->operation = OperationNamed(entry->name);
  // A barrier of NCCL is an all-reduce that tells what it is for.
  if (entry->name.ends_with("barrier")) entry->operation = Operation::kBarrier;
  const bool p2p = entry->operation == Operation::kSend || entry->operation == Operation::kRecv;
  entry->point_to_point = entry->point_to_point || p2p;
  if (space == std::string_view::npos || !p2p) return;
  const std::string_view places = profiling_name.substr(space + 1);
  const char* const end = places.data() + places.size();
  uint32_t self = 0, peer = 0;
  const auto first = std::from_chars(places.data(), end, self);
  if (first.ec != std::errc()) return;
  entry->self = self;
  if (end - first.ptr < 3) return;
  if (std::from_chars(first.ptr + 2, end, peer).ec == std::errc()) entry->peer = peer;
}

class Parser {
 public:
  explicit Parser(const Value& root) : root_(root) {}

  Result<FrDump> Run() {
    const Value& entries = root_["entries"];
    if (root_.kind() != Value::Kind::kTable || entries.kind() != Value::Kind::kList) {
      return Status::Error("holds no entries of a Flight Recorder");
    }
    dump_.version = root_["version"].text();
    for (const char* key : {"nccl_version", "comm_lib_version"}) {
      if (dump_.library.empty()) dump_.library = root_[key].text();
    }
    const std::optional<int64_t> rank = root_["rank"].integer();
    if (rank && *rank >= 0 && *rank < UINT32_MAX) dump_.rank = static_cast<uint32_t>(*rank);
    ParseGroups();
    for (const Value& entry : entries.items()) ParseEntry(entry);
    std::stable_sort(dump_.entries.begin(), dump_.entries.end(),
                     [](const FrEntry& a, const FrEntry& b) { return a.record < b.record; });
    ParseStatuses();
    return std::move(dump_);
  }

 private:
  size_t GroupNamed(std::string_view name) {
    const auto [place, is_new] = by_name_.try_emplace(std::string(name), dump_.groups.size());
    if (is_new) dump_.groups.push_back({std::string(name), "", {}, {}, {}});
    return place->second;
  }

  void ParseGroups() {
    size_t ranks = 0;
    for (const auto& [key, config] : root_["pg_config"].members()) {
      if (dump_.groups.size() >= kMostGroups) break;
      const std::string_view name = key.text();
      // Gloo records one nameless group without members.
      if (name.empty() && config["ranks"].text() == "[]") continue;
      FrGroup& group = dump_.groups[GroupNamed(name)];
      group.description = config["desc"].text();
      group.ranks = ParseRanks(config["ranks"]);
      ranks += group.ranks.size();
      if (ranks > 4 * kMostRanks) group.ranks.clear();
    }
  }

  void ParseEntry(const Value& value) {
    FrEntry entry;
    entry.point_to_point = value["is_p2p"].is_true();
    ParseName(value["profiling_name"].text(), &entry);
    const std::optional<int64_t> sequence = value["collective_seq_id"].is_none()
                                                ? value["seq_id"].integer()
                                                : value["collective_seq_id"].integer();
    entry.created_unix_ns = UnixNs(value["time_created_ns"]);
    const std::string_view state = value["state"].text();
    const bool known = state == "scheduled" || state == "started" || state == "completed";
    if (entry.name.empty() || !known || !sequence || *sequence < 0 || *sequence > INT64_MAX / 2 ||
        dump_.entries.size() >= kMostEntries) {
      ++dump_.left_out;
      return;
    }
    entry.sequence = static_cast<uint64_t>(*sequence);
    entry.state = state == "completed" ? FrState::kCompleted
                  : state == "started" ? FrState::kStarted
                                       : FrState::kScheduled;
    entry.retired = value["retired"].is_true();
    entry.started_unix_ns = UnixNs(value["time_discovered_started_ns"]);
    entry.completed_unix_ns = UnixNs(value["time_discovered_completed_ns"]);
    entry.record =
        static_cast<uint64_t>(std::max<int64_t>(value["record_id"].integer().value_or(0), 0));
    entry.frames = value["frames"];
    ParseTensors(value, &entry);
    if (!FindGroup(value, &entry)) {
      ++dump_.left_out;
      return;
    }
    dump_.entries.push_back(entry);
  }

  void ParseTensors(const Value& value, FrEntry* entry) {
    const std::span<const Value> types = value["input_dtypes"].items();
    if (!types.empty()) entry->data_type = DataTypeNamed(types.front().text());
    bool lists_differ = false;
    const std::optional<uint64_t> elements = Elements(value["input_sizes"], &lists_differ);
    Elements(value["output_sizes"], &lists_differ);
    if (elements && *elements < UINT64_MAX / 16) {
      entry->bytes = *elements * BytesOf(entry->data_type);
    }
    // A size of nothing is one that the recorder did not see, or a tensor of one element.
    const Operation operation = entry->operation;
    entry->unequal_bytes_allowed =
        !elements || operation == Operation::kAllToAll || operation == Operation::kGather ||
        operation == Operation::kScatter ||
        (lists_differ &&
         (operation == Operation::kAllGather || operation == Operation::kReduceScatter));
  }

  bool FindGroup(const Value& value, FrEntry* entry) {
    const std::span<const Value> group = value["process_group"].items();
    const std::optional<int64_t> id = value["pg_id"].integer();
    if (group.empty() && !id) return false;
    // Without a name the number counts for this process alone, but for the first group.
    const std::string name = !group.empty() ? std::string(group[0].text()) : std::to_string(*id);
    if (dump_.groups.size() >= kMostGroups && !by_name_.contains(name)) return false;
    entry->group = GroupNamed(name);
    FrGroup& found = dump_.groups[entry->group];
    if (group.size() > 1 && found.description.empty()) found.description = group[1].text();
    if (id) found.local_id = id;
    return true;
  }

  void ParseStatuses() {
    std::map<int64_t, FrStatus> statuses;
    for (const auto& [key, value] : root_["pg_status"].members()) {
      const std::optional<int64_t> id = key.integer();
      if (!id || statuses.size() >= kMostGroups) continue;
      FrStatus& status = statuses[*id];
      status.enqueued = value["last_enqueued_collective"].integer().value_or(-1);
      status.started = value["last_started_collective"].integer().value_or(-1);
      status.completed = value["last_completed_collective"].integer().value_or(-1);
    }
    MatchByOrder(statuses);
    for (FrGroup& group : dump_.groups) {
      if (!group.local_id) continue;
      const auto found = statuses.find(*group.local_id);
      if (found != statuses.end()) group.status = found->second;
    }
  }

  void MatchByOrder(const std::map<int64_t, FrStatus>& statuses) {
    if (statuses.size() != dump_.groups.size()) return;
    std::map<int64_t, FrGroup*> by_number;
    for (FrGroup& group : dump_.groups) {
      const std::optional<int64_t> number = Value::Text(group.name).integer();
      if (!number) return;
      by_number[*number] = &group;
    }
    if (by_number.size() != statuses.size()) return;
    auto group = by_number.begin();
    for (const auto& [id, status] : statuses) {
      const std::optional<int64_t> told = (group++)->second->local_id;
      if (told && *told != id) return;
    }
    group = by_number.begin();
    for (const auto& [id, status] : statuses) {
      FrGroup& match = *(group++)->second;
      if (!match.local_id) dump_.statuses_by_order = true;
      match.local_id = id;
    }
  }

  const Value& root_;
  FrDump dump_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace

Result<FrDump> ParseFrDump(const Value& root) { return Parser(root).Run(); }

}  // namespace flare::import

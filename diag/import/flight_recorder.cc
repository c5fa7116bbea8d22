// SPDX-License-Identifier: Apache-2.0
// PyTorch Flight Recorder: the last collectives of one rank, dumped by its watchdog when one of
// them ran into its time limit, or on request.
//
// A dump does not say when it was made. It is read as one of a job that stands still: what is open
// has waited at least until the last moment that the dump knows. A dump made on request of a job
// that moves would show ranks at different moments; the note says so, and what is concluded from
// missing calls stays a suspicion until the waits themselves are long.
#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "diag/import/fr_dump.h"
#include "diag/import/importers.h"
#include "diag/import/pickle.h"
#include "diag/import/value.h"

namespace flare::import {
namespace {

constexpr size_t kMostBytes = size_t{512} << 20;
constexpr size_t kMostRecent = 256;  // signatures of one group
constexpr size_t kBeforeOpen = 64;   // of these, before the oldest open call
constexpr size_t kMostOpen = 2048;
constexpr size_t kMostFrames = 64;
constexpr uint32_t kUnknownPlace = 1 << 19;  // beyond any place in a group

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

int RecogniseFlightRecorder(std::string_view head) {
  if (head.empty()) return 0;
  const bool recorder = Has(head, "collective_seq_id") || Has(head, "pg_status") ||
                        (Has(head, "pg_config") && Has(head, "entries"));
  const bool pickle = head[0] == '\x80' && head.size() > 1 && head[1] >= 2 && head[1] <= 5;
  if (pickle) return recorder ? 95 : 30;
  const size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || !recorder) return 0;
  if (head[first] == '{' && !Has(head, "\"traceEvents\"")) return 90;
  // Protocols 0 and 1 have no mark of their own; a dump begins with a dictionary.
  return head.starts_with("(dp") || head.starts_with("(d") || head.starts_with("}q") ? 85 : 0;
}

namespace {

// Equal on all members: by name and members.
CommId IdOf(const FrGroup& group) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  };
  add(group.name);
  for (const uint32_t rank : group.ranks) add("|" + std::to_string(rank));
  return CommId(hash == 0 ? 1 : hash);
}

std::string NameOf(const FrGroup& group) {
  const std::string& description = group.description;
  if (description.empty() || description == "undefined") return "pg " + group.name;
  if (description == "default_pg") return description;
  return description + " (" + group.name + ")";  // many groups have one description
}

bool IsDefault(const FrGroup& group) {
  return group.description == "default_pg" || (group.description.empty() && group.name == "0");
}

// The last number in the name of the file: "nccl_trace_rank_12", "_dump_3.json.gz".
std::optional<uint32_t> NumberInName(const std::string& path) {
  std::string_view name = path;
  name.remove_prefix(name.rfind('/') + 1);
  for (const std::string_view end : {".gz", ".zst", ".xz", ".json", ".pickle", ".pkl"}) {
    if (name.ends_with(end)) name.remove_suffix(end.size());
  }
  size_t digits = 0;
  while (digits < name.size() && name[name.size() - 1 - digits] >= '0' &&
         name[name.size() - 1 - digits] <= '9') {
    ++digits;
  }
  uint32_t number = 0;
  const char* const end = name.data() + name.size();
  if (digits == 0 || std::from_chars(end - digits, end, number).ec != std::errc()) return {};
  return number;
}

std::vector<diag::StackFrame> StackOf(const Value& frames) {
  std::vector<diag::StackFrame> stack;
  for (const Value& frame : frames.items()) {
    if (stack.size() == kMostFrames) break;
    const std::optional<int64_t> line = frame["line"].integer();
    const bool sane = line && *line > 0 && *line <= UINT32_MAX;
    stack.push_back({std::string(frame["name"].text()), std::string(frame["filename"].text()),
                     sane ? static_cast<uint32_t>(*line) : 0});
  }
  return stack;
}

// One collective of a group. Several entries are one when they were coalesced.
struct Collective {
  diag::Signature call;
  const FrEntry* first = nullptr;
  bool finished = true;
  std::optional<bool> begun;
};

class Mapper {
 public:
  Mapper(const FrDump& dump, const std::string& path, Fragment* fragment)
      : dump_(dump), fragment_(*fragment) {
    for (const FrEntry& entry : dump.entries) {
      timed_ = timed_ || entry.state == FrState::kStarted || entry.started_unix_ns != 0;
    }
    for (const FrGroup& group : dump.groups)
      timed_ = timed_ || (group.status && group.status->started > 0);
    FindRank(path);
  }

  void Run() {
    RankFragment& out = fragment_.ranks.emplace_back();
    if (rank_) out.rank = Rank(*rank_);
    out.world_size = world_size_;
    diag::RankState& state = out.record.state;
    state.stands_still = true;
    out.record.framework = "PyTorch";
    fragment_.framework = "PyTorch";
    if (!dump_.library.empty()) fragment_.framework += ", NCCL " + dump_.library;
    for (const FrEntry& entry : dump_.entries) {
      state.at_unix_ns = std::max({state.at_unix_ns, entry.created_unix_ns, entry.started_unix_ns,
                                   entry.completed_unix_ns});
      state.last_progress_unix_ns = std::max(state.last_progress_unix_ns, entry.completed_unix_ns);
    }
    std::vector<std::vector<const FrEntry*>> by_group(dump_.groups.size());
    for (const FrEntry& entry : dump_.entries) by_group[entry.group].push_back(&entry);
    for (size_t i = 0; i < by_group.size(); ++i) AddGroup(dump_.groups[i], by_group[i], &state);
    std::stable_sort(state.open_calls.begin(), state.open_calls.end(),
                     [](const diag::OpenCall& a, const diag::OpenCall& b) {
                       return a.since_unix_ns < b.since_unix_ns;
                     });
    if (state.open_calls.size() > kMostOpen) {
      Note(std::to_string(state.open_calls.size() - kMostOpen) +
           " open calls left out, the newest");
      state.open_calls.resize(kMostOpen);
    }
    SetLastCall(&state);
    Notes();
  }

 private:
  void Note(std::string note) { fragment_.notes.push_back(std::move(note)); }

  // ---- Whose dump it is: it says so, or only one rank is in all its groups, or a send tells the
  // place in a group. The file's name only when all of that leaves it open.

  void FindRank(const std::string& path) {
    for (const FrGroup& group : dump_.groups) {
      if (IsDefault(group)) {
        world_size_ = std::max(world_size_, static_cast<uint32_t>(group.ranks.size()));
      }
    }
    if (dump_.rank) {
      rank_ = dump_.rank;
      return;
    }
    std::vector<uint32_t> common;
    bool any = false;
    for (const FrGroup& group : dump_.groups) {
      if (group.ranks.empty()) continue;
      std::vector<uint32_t> ranks = group.ranks;
      std::sort(ranks.begin(), ranks.end());
      if (any) {
        std::vector<uint32_t> both;
        std::set_intersection(common.begin(), common.end(), ranks.begin(), ranks.end(),
                              std::back_inserter(both));
        ranks = std::move(both);
      }
      common = std::move(ranks);
      any = true;
    }
    for (const FrEntry& entry : dump_.entries) {
      const std::vector<uint32_t>& ranks = dump_.groups[entry.group].ranks;
      if (!entry.self || *entry.self >= ranks.size()) continue;
      common = {ranks[*entry.self]};
      break;
    }
    if (common.size() == 1) {
      rank_ = common.front();
      return;
    }
    const std::optional<uint32_t> number = NumberInName(path);
    if (!number || (world_size_ != 0 && *number >= world_size_)) return;
    if (any && !std::binary_search(common.begin(), common.end(), *number)) return;
    rank_ = number;
    Note("the dump does not say which rank it is of; taken from the name of the file");
  }

  // The place of this rank in the group; a number that is no place when it is not told.
  uint32_t PlaceIn(const FrGroup& group, const std::vector<const FrEntry*>& entries) const {
    for (const FrEntry* entry : entries) {
      if (entry->self) return *entry->self;
    }
    const auto own =
        rank_ ? std::find(group.ranks.begin(), group.ranks.end(), *rank_) : group.ranks.end();
    if (own != group.ranks.end()) return static_cast<uint32_t>(own - group.ranks.begin());
    if (rank_ && IsDefault(group)) return *rank_;
    return kUnknownPlace + rank_.value_or(0);
  }

  // ---- Calls.

  bool Finished(const FrEntry& entry, const FrGroup& group, bool counts_collectives) const {
    if (entry.state == FrState::kCompleted) return true;
    if (!entry.retired) return false;
    // Gloo retires what has ended. The watchdog of NCCL also retires what it gives up.
    return entry.point_to_point || !counts_collectives ||
           group.status->completed >= static_cast<int64_t>(entry.sequence);
  }

  std::optional<bool> Begun(const FrEntry& entry) const {
    if (entry.state != FrState::kScheduled || entry.started_unix_ns != 0) return true;
    if (!timed_) return std::nullopt;
    return false;
  }

  static void MergeCoalesced(const FrEntry& entry, Collective* into) {
    diag::Signature& call = into->call;
    // The entry that ends the block has neither tensors nor a name that says more.
    if (entry.operation == Operation::kUnknown) return;
    if (call.operation == Operation::kUnknown) {
      call.operation = entry.operation;
      call.data_type = entry.data_type;
      call.bytes = 0;
    } else if (call.operation != entry.operation) {
      call.operation = Operation::kUnknown;
    }
    if (call.data_type != entry.data_type) call.data_type = DataType::kUnknown;
    call.bytes += entry.bytes;
    call.unequal_bytes_allowed |= entry.unequal_bytes_allowed;
  }

  static diag::Signature SignatureOf(const FrEntry& entry) {
    diag::Signature call;
    call.sequence = entry.sequence;
    call.operation = entry.operation;
    call.data_type = entry.operation == Operation::kBarrier ? DataType::kUnknown : entry.data_type;
    call.bytes = entry.operation == Operation::kBarrier ? 0 : entry.bytes;
    call.unequal_bytes_allowed = entry.unequal_bytes_allowed;
    call.launched_unix_ns = entry.created_unix_ns;
    return call;
  }

  diag::OpenCall CallOf(const FrEntry& entry, const diag::Signature& call, CommId comm) const {
    diag::OpenCall open;
    open.kind = !entry.point_to_point                 ? EventKind::kCollective
                : entry.operation == Operation::kSend ? EventKind::kSend
                                                      : EventKind::kRecv;
    open.name = entry.name;
    open.communicator = comm;
    open.sequence = call.sequence;
    open.operation = call.operation;
    open.data_type = call.data_type;
    open.bytes = call.bytes;
    open.unequal_bytes_allowed = call.unequal_bytes_allowed;
    if (entry.peer) open.peer = static_cast<int32_t>(std::min<uint32_t>(*entry.peer, INT32_MAX));
    open.since_unix_ns = entry.created_unix_ns;
    open.begun = Begun(entry);
    open.stack = StackOf(entry.frames);
    return open;
  }

  void AddGroup(const FrGroup& group, const std::vector<const FrEntry*>& entries,
                diag::RankState* state) {
    const bool p2p = std::any_of(entries.begin(), entries.end(),
                                 [](const FrEntry* entry) { return entry->point_to_point; });
    uint64_t last = 0;
    for (const FrEntry* entry : entries) last = std::max(last, entry->sequence);
    const bool counts_collectives = group.status && !p2p && !entries.empty() &&
                                    group.status->enqueued == static_cast<int64_t>(last);
    const CommId id = IdOf(group);
    std::map<uint64_t, Collective> collectives;
    for (const FrEntry* entry : entries) {
      const bool finished = Finished(*entry, group, counts_collectives);
      if (entry->point_to_point) {
        const bool side =
            entry->operation == Operation::kSend || entry->operation == Operation::kRecv;
        if (!finished && side) state->open_calls.push_back(CallOf(*entry, SignatureOf(*entry), id));
        continue;
      }
      const auto [place, is_new] = collectives.try_emplace(entry->sequence);
      Collective& collective = place->second;
      if (is_new) {
        collective = {SignatureOf(*entry), entry, finished, Begun(*entry)};
        continue;
      }
      MergeCoalesced(*entry, &collective);
      collective.finished = collective.finished && finished;
    }
    diag::CommunicatorState comm;
    comm.communicator = id;
    comm.name = NameOf(group);
    comm.group_rank = PlaceIn(group, entries);
    comm.group_size = static_cast<uint32_t>(group.ranks.size());
    if (entries.empty()) {
      // Nothing of this group is open. Its status may count sends, so that what it has completed is
      // not told, but it has not come beyond. Without one, a recorder that has forgotten nothing
      // shows that the group was never used.
      const bool forgot_nothing = !dump_.entries.empty() && dump_.entries.front().record == 0;
      if (!group.status && !forgot_nothing) return;
      if (group.status)
        comm.launched = static_cast<uint64_t>(std::max<int64_t>(group.status->enqueued, -1) + 1);
    } else {
      comm.launched = last + 1;
      comm.completed = last + 1;
      for (const auto& [sequence, collective] : collectives) {
        if (collective.finished) continue;
        comm.completed = std::min(comm.completed, sequence);
        diag::OpenCall call = CallOf(*collective.first, collective.call, id);
        call.begun = collective.begun;
        state->open_calls.push_back(std::move(call));
      }
      AddRecent(collectives, comm.completed, &comm);
    }
    state->communicators.push_back(std::move(comm));
  }

  // The calls around the oldest open one: where members disagree, the job stands still.
  void AddRecent(const std::map<uint64_t, Collective>& collectives, uint64_t open_from,
                 diag::CommunicatorState* comm) {
    auto begin = collectives.lower_bound(open_from);
    for (size_t i = 0; i < kBeforeOpen && begin != collectives.begin(); ++i) --begin;
    for (; begin != collectives.end() && comm->recent.size() < kMostRecent; ++begin) {
      comm->recent.push_back(begin->second.call);
    }
  }

  void SetLastCall(diag::RankState* state) {
    if (dump_.entries.empty()) return;
    const FrEntry& entry = dump_.entries.back();
    const FrGroup& group = dump_.groups[entry.group];
    if (entry.state != FrState::kCompleted && !entry.retired) return;
    state->last_call = CallOf(entry, SignatureOf(entry), IdOf(group));
  }

  void Notes() {
    Note("the dump does not say when it was made; read as one of a job that stands still");
    if (dump_.statuses_by_order) {
      Note(
          "the states of its process groups are matched with their names by the order of creation");
    }
    if (dump_.left_out > 0) {
      Note(std::to_string(dump_.left_out) + " entries without a name, state or number left out");
    }
    if (!dump_.version.starts_with("2.")) {
      Note("version \"" + dump_.version.substr(0, 20) +
           "\" is not known to this reader; read as 2.x");
    }
  }

  const FrDump& dump_;
  Fragment& fragment_;
  bool timed_ = false;  // states tell whether devices have begun
  std::optional<uint32_t> rank_;
  uint32_t world_size_ = 0;
};

}  // namespace

Status ReadFlightRecorder(Input* input, Fragment* fragment) {
  const Result<std::string> bytes = input->ReadAll(kMostBytes);
  if (!bytes.ok()) return bytes.status();
  ValueStore store;
  Value root;
  const size_t first = bytes->find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (*bytes)[first] == '{') {
    const Result<Value> json = ReadJson(*bytes, &store);
    if (!json.ok()) return json.status();
    root = *json;
  } else {
    const Result<Pickle> pickle = ReadPickle(*bytes, &store);
    if (!pickle.ok()) return pickle.status();
    root = pickle->root;
    if (!pickle->cut_off.ok()) {
      fragment->notes.push_back(pickle->cut_off.message() + "; what came before is used");
    }
  }
  const Result<FrDump> dump = ParseFrDump(root);
  if (!dump.ok()) return dump.status();
  Mapper(*dump, input->name(), fragment).Run();
  return Status::Ok();
}

}  // namespace flare::import

// SPDX-License-Identifier: Apache-2.0
// What the watchdog of PyTorch's ProcessGroupNCCL writes when a collective ran into its time limit:
//
//   [E ProcessGroupNCCL.cpp:566] [Rank 3] Watchdog caught collective operation timeout:
//     WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1802710 milliseconds ... before 2.0
//   [rank3]:[E1013 12:34:56.789 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught ...
//     WorkNCCL(SeqNum=118, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ...
//   [PG ID 0 PG GUID 0(default_pg) Rank 3] Exception (either an error or timeout) detected by
//     watchdog at work: 118, last enqueued NCCL work: 120, last completed NCCL work: 117.
//   [Rank 5] Received a dump signal ... Last enqueued NCCL work: 117, last completed NCCL work:
//   117.
//   - [5] finished collective #117, but didn't join collective #118 (count from 1)
//
// (each one line.) "Rank" is the place in the process group; the prefix tells the rank of the job.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "diag/import/job_output.h"
#include "diag/import/kineto_names.h"
#include "diag/import/signal_list.h"
#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

constexpr size_t kMostRanks = 100'000;
constexpr size_t kMostGroups = 256;  // of a rank
// Times of such a log have no year: they count from here.
constexpr uint64_t kOriginNs = 1'000'000'000'000'000'000;
constexpr uint64_t kMsNs = 1'000'000;
constexpr uint64_t kNoSequence = ~uint64_t{0};

// Of the process group that writes: "[PG ID 0 PG GUID 0(default_pg) Rank 3]", "[PG 0 Rank 3]",
// "[Rank 3]".
struct Writer {
  std::string group = "default_pg";
  std::optional<uint32_t> place;
  bool of_all = true;  // the group of all ranks: the place is the rank
};

std::optional<Writer> WriterOf(std::string_view text) {
  Writer writer;
  size_t at = text.find("Rank ");
  while (at != std::string_view::npos) {
    const auto place = LeadingNumber<uint32_t>(text.substr(at + 5));
    const size_t open = text.rfind('[', at);
    if (place && open != std::string_view::npos) {
      writer.place = place;
      const std::string_view group = text.substr(open + 1, at - open - 1);
      if (const auto id = Between(group, "PG GUID ", " ")) {
        writer.group = *id;
      } else if (const auto number = Between(group, "PG ", " ")) {
        writer.group = *number;
      }
      writer.of_all = group.empty() || writer.group == "0" || Has(writer.group, "default_pg");
      if (writer.of_all) writer.group = "default_pg";
      return writer;
    }
    at = text.find("Rank ", at + 5);
  }
  return std::nullopt;
}

// "E1013 12:34:56.789": nanoseconds since the year began, months of 31 days. 0 without a time.
uint64_t TimeOf(std::string_view text) {
  for (size_t at = text.find("[E"); at != std::string_view::npos; at = text.find("[E", at + 2)) {
    const std::string_view stamp = text.substr(at + 2);
    if (stamp.size() < 13 || stamp[4] != ' ' || stamp[7] != ':' || stamp[10] != ':') continue;
    const auto month = WholeNumber<uint32_t>(stamp.substr(0, 2));
    const auto day = WholeNumber<uint32_t>(stamp.substr(2, 2));
    const auto hour = WholeNumber<uint32_t>(stamp.substr(5, 2));
    const auto minute = WholeNumber<uint32_t>(stamp.substr(8, 2));
    const auto second = LeadingDecimal(stamp.substr(11, 9));
    if (!month || !day || !hour || !minute || !second || *second < 0 || *second > 61) continue;
    const double seconds = ((*month * 31.0 + *day) * 24 + *hour) * 3600 + *minute * 60 + *second;
    return static_cast<uint64_t>(seconds * 1e9);
  }
  return 0;
}

struct Group {
  uint32_t place = 0;
  uint64_t launched = 0, completed = 0;
  std::optional<diag::OpenCall> open;
};

struct RankNotes {
  uint64_t at_ns = 0;
  std::map<std::string, Group> groups;
};

CommId IdOf(const std::string& group) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : group) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return CommId(hash);
}

class WatchdogReader : public OutputReader {
 public:
  void Take(const OutputLine& line) override {
    const std::string_view text = line.whole;
    if (Has(text, "Watchdog caught collective operation timeout")) return TimedOut(line);
    if (Has(text, "ast enqueued NCCL work") || Has(text, "last enqueued work:"))
      return Counts(line);
    if (Has(text, "oin collective #") || Has(text, "finish collective #")) return Lagging(line);
    if (Has(text, "watchdog got stuck for ")) return Stuck(line);
  }

  bool found() const override { return found_; }

  void End(Fragment* fragment) override {
    signals_.MoveTo(fragment);
    uint64_t last_ns = 0;
    for (const auto& [rank, notes] : ranks_) last_ns = std::max(last_ns, notes.at_ns);
    for (auto& [rank, notes] : ranks_) {
      // Lines without a time were written when the others were.
      const uint64_t shift_ns = notes.at_ns == kOriginNs ? last_ns - notes.at_ns : 0;
      RankFragment& out = fragment->ranks.emplace_back();
      out.rank = Rank(rank);
      out.record.framework = "PyTorch";
      diag::RankState& state = out.record.state;
      state.stands_still = true;
      state.at_unix_ns = notes.at_ns + shift_ns;
      for (auto& [name, group] : notes.groups) {
        diag::CommunicatorState comm;
        comm.communicator = IdOf(name);
        comm.name = name;
        comm.group_rank = group.place;
        comm.launched = group.launched;
        comm.completed = group.completed;
        if (group.open) {
          group.open->communicator = comm.communicator;
          group.open->since_unix_ns += shift_ns;
          comm.launched = std::max(comm.launched, group.open->sequence + 1);
          comm.recent.push_back(SignatureOf(*group.open));
          state.open_calls.push_back(std::move(*group.open));
        }
        state.communicators.push_back(std::move(comm));
      }
    }
    if (!ranks_.empty()) fragment->absolute_time = false;
    if (left_out_ > 0) {
      fragment->notes.push_back(Counted(left_out_, "message") +
                                " of watchdogs that do not say their rank left out");
    }
  }

 private:
  static diag::Signature SignatureOf(const diag::OpenCall& call) {
    diag::Signature signature;
    signature.sequence = call.sequence;
    signature.operation = call.operation;
    signature.unequal_bytes_allowed = true;  // elements are told, their type is not
    signature.launched_unix_ns = call.since_unix_ns;
    return signature;
  }

  // The rank that writes: by the prefix, or by its place in the group of all.
  std::optional<uint32_t> RankOf(const OutputLine& line, const Writer& writer) const {
    if (const auto told = Between(line.whole, "[rank", "]")) {
      if (const auto rank = WholeNumber<uint32_t>(*told)) return rank;
    }
    if (writer.of_all && writer.place) return writer.place;
    if (line.origin.rank) return line.origin.rank->value;
    return std::nullopt;
  }

  // Null when it cannot be said whose line it is.
  Group* Find(const OutputLine& line, RankNotes** notes) {
    const std::optional<Writer> writer = WriterOf(line.whole);
    const std::optional<uint32_t> rank = RankOf(line, writer.value_or(Writer()));
    if (!rank || (ranks_.size() >= kMostRanks && !ranks_.contains(*rank))) {
      ++left_out_;
      return nullptr;
    }
    *notes = &ranks_[*rank];
    (*notes)->at_ns = std::max((*notes)->at_ns, kOriginNs + TimeOf(line.whole));
    const std::string name = writer ? writer->group : "default_pg";
    auto& groups = (*notes)->groups;
    if (groups.size() >= kMostGroups && !groups.contains(name)) return nullptr;
    Group& group = groups[name];
    group.place = writer && writer->place ? *writer->place : *rank;
    return &group;
  }

  void TimedOut(const OutputLine& line) {
    found_ = true;
    const std::string_view text = line.whole;
    const std::optional<std::string_view> type = Between(text, "OpType=", ",");
    const auto number = Between(text, "SeqNum=", ",");
    const uint64_t sequence =
        number ? WholeNumber<uint64_t>(*number).value_or(kNoSequence) : kNoSequence;
    const auto ran = Between(text, "ran for ", "");
    const uint64_t ran_ms = ran ? LeadingNumber<uint64_t>(*ran).value_or(0) : 0;
    const std::optional<Writer> writer = WriterOf(text);
    const auto rank = RankOf(line, writer.value_or(Writer()));
    diag::HostSignal signal;
    signal.kind = diag::SignalKind::kNcclTimeout;
    if (rank) signal.rank = Rank(*rank);
    signal.value = static_cast<double>(ran_ms) * 1e-3;
    signal.text = text.substr(text.find("Watchdog caught"));
    signal.source = line.Source();
    signals_.Add(std::move(signal));
    // Without a number nothing can be compared between ranks; sends and receives have numbers of
    // their own, and the partner is not told.
    const Operation operation = type ? OperationNamed(*type) : Operation::kUnknown;
    if (sequence == kNoSequence || operation == Operation::kSend || operation == Operation::kRecv)
      return;
    RankNotes* notes = nullptr;
    Group* group = Find(line, &notes);
    if (group == nullptr || (group->open && group->open->sequence <= sequence)) return;
    diag::OpenCall call;
    call.kind = EventKind::kCollective;
    call.name = type.value_or("");
    call.operation = operation;
    call.sequence = sequence;
    const uint64_t ran_ns = std::min<uint64_t>(ran_ms, 1'000'000'000) * kMsNs;
    call.since_unix_ns = notes->at_ns - ran_ns;
    group->open = std::move(call);
  }

  void Counts(const OutputLine& line) {
    found_ = true;
    std::string_view text = line.whole;
    const auto number =
        [&](std::initializer_list<std::string_view> before) -> std::optional<int64_t> {
      for (const std::string_view words : before) {
        if (const auto rest = Between(text, words, "")) return LeadingNumber(Trim(*rest));
      }
      return std::nullopt;
    };
    const auto enqueued = number({"ast enqueued NCCL work:", "last enqueued work:"});
    const auto completed = number({"last completed NCCL work:", "last completed work:"});
    if (!enqueued || *enqueued < -1 || *enqueued > INT64_MAX / 2) return;
    RankNotes* notes = nullptr;
    Group* group = Find(line, &notes);
    if (group == nullptr) return;
    group->launched = std::max(group->launched, static_cast<uint64_t>(*enqueued + 1));
    if (completed && *completed >= 0 && *completed <= *enqueued) {
      group->completed = std::max(group->completed, static_cast<uint64_t>(*completed + 1));
    }
  }

  // "[5, 7] finished collective #117, but didn't join collective #118 (count from 1)": what one
  // rank has found out of all of them.
  void Lagging(const OutputLine& line) {
    const auto joined = Between(line.whole, "join collective #", "");
    const auto next = joined ? LeadingNumber<uint64_t>(*joined) : std::nullopt;
    const size_t words = line.whole.find("] finished collective");
    if (!next || words == std::string_view::npos || *next > INT64_MAX / 2) return;
    const size_t open = line.whole.rfind('[', words);
    if (open == std::string_view::npos) return;
    found_ = true;
    std::string_view list = line.whole.substr(open + 1, words - open - 1);
    while (!list.empty()) {
      const auto rank = LeadingNumber<uint32_t>(Trim(list));
      if (rank && ranks_.size() < kMostRanks) {
        RankNotes& notes = ranks_[*rank];
        notes.at_ns = std::max(notes.at_ns, kOriginNs);
        Group& group = notes.groups["default_pg"];
        group.place = *rank;
        group.launched = std::max(group.launched, *next);
      }
      const size_t comma = list.find(',');
      list = comma == std::string_view::npos ? "" : list.substr(comma + 1);
    }
  }

  // The watchdog itself hangs in a call of CUDA or NCCL.
  void Stuck(const OutputLine& line) {
    found_ = true;
    const std::optional<Writer> writer = WriterOf(line.whole);
    const auto rank = RankOf(line, writer.value_or(Writer()));
    diag::HostSignal signal;
    signal.kind = diag::SignalKind::kNcclTimeout;
    if (rank) signal.rank = Rank(*rank);
    signal.device = "watchdog";
    signal.text = line.whole.substr(line.whole.find("watchdog got stuck"));
    signal.source = line.Source();
    signals_.Add(std::move(signal));
  }

  bool found_ = false;
  std::map<uint32_t, RankNotes> ranks_;
  SignalList signals_;
  uint64_t left_out_ = 0;
};

}  // namespace

std::unique_ptr<OutputReader> MakeWatchdogReader() { return std::make_unique<WatchdogReader>(); }

}  // namespace flare::import

// SPDX-License-Identifier: Apache-2.0
#include "diag/import/nccl_ras.h"

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "diag/import/signal_list.h"
#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

using diag::HostSignal;
using diag::SignalKind;

constexpr size_t kMostProcesses = 100'000;
constexpr size_t kMostComms = 100'000;

struct Missing {
  int64_t pid = 0;
  std::string node;
  std::string gpu;
  bool dead = false;
  std::optional<uint32_t> rank;
};

// "Process 3487984 on node 172.16.64.213 managing GPU 5"
std::optional<Missing> ParseProcess(std::string_view line) {
  if (!line.starts_with("Process ") || !Has(line, " on node ")) return std::nullopt;
  Missing missing;
  missing.pid = LeadingNumber(line.substr(8)).value_or(0);
  missing.node = Between(line, " on node ", " ").value_or("");
  missing.gpu = Between(line, " managing ", "").value_or("");
  return missing;
}

// "Rank 6 -- GPU 6 managed by process 3467978 on node 10.194.132.77"
struct ListedRank {
  uint32_t rank = 0;
  int64_t pid = 0;
  std::string node;
  std::string gpu;
};

std::optional<ListedRank> ParseListedRank(std::string_view line) {
  if (!line.starts_with("Rank ") || !Has(line, " -- ")) return std::nullopt;
  const auto rank = LeadingNumber<uint32_t>(line.substr(5));
  if (!rank) return std::nullopt;
  ListedRank listed;
  listed.rank = *rank;
  listed.pid = LeadingNumber(Between(line, "process ", "").value_or("")).value_or(0);
  listed.node = Between(line, " on node ", " ").value_or("");
  listed.gpu = Between(line, " -- ", " managed").value_or("");
  return listed;
}

// "The missing ranks: 3,7-9"
std::vector<uint32_t> ParseRankList(std::string_view text) {
  std::vector<uint32_t> ranks;
  while (!text.empty() && ranks.size() < kMostRasRanks) {
    std::string_view item = Trim(text.substr(0, text.find(',')));
    const size_t comma = text.find(',');
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
    const auto first = LeadingNumber<uint32_t>(item);
    if (!first) continue;
    const size_t dash = item.find('-');
    const auto last =
        dash == std::string_view::npos ? first : LeadingNumber<uint32_t>(item.substr(dash + 1));
    for (uint32_t rank = *first; last && rank <= *last && ranks.size() < kMostRasRanks; ++rank) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

// "#0-0 (27a079b828ff1a75) MISMATCH" and what follows it.
struct CommTrouble {
  std::string hash;
  bool mismatch = false, counts = false;
  std::vector<std::string> statements;  // "26 ranks have launched up to operation 6650"
};

class TextReader : public RasTextReader {
 public:
  explicit TextReader(Fragment* fragment) : fragment_(*fragment) {}

  void Take(std::string_view line, const std::string& source) override {
    source_ = source;
    const std::string_view text = Trim(line);
    if (text.empty()) return;
    if (text.starts_with("NCCL version ") || text.starts_with("RCCL version ")) {
      version_ = text.substr(0, 200);
      return;
    }
    if (text.starts_with("read socket:") || text.starts_with("connect:")) refusal_ = text;
    if (text.starts_with("Communicators...")) return BeginAnswer();
    if (text == "Job summary") {
      after_summary_ = true;
      return;
    }
    if (after_summary_ && IsDigit(text[0])) return Summary(text);
    if (const auto dead = Between(text, "PEER_DEAD: ", "")) {
      any_ = true;
      if (auto process = ParseProcess(*dead)) Miss(std::move(*process), true);
      return;
    }
    if (text == "INCOMPLETE" || text == "DEAD" || text == "TIMEOUT") {
      dead_ = text == "DEAD";
      comm_ = nullptr;
      return;
    }
    if (text[0] == '#') return BeginComm(text);
    if (auto process = ParseProcess(text)) return Miss(std::move(*process), dead_);
    if (comm_ != nullptr) return CommLine(text);
    if (IsDigit(text[0])) TableRow(text);
  }

  Status End() override {
    if (!any_) {
      return refusal_.empty() ? Status::Error("holds no answer of RAS")
                              : Status::Error("RAS gave no answer: " + refusal_);
    }
    EndAnswer();
    if (!version_.empty()) fragment_.notes.push_back(version_);
    NameRanks();
    for (const Missing& process : missing_) Tell(process);
    for (const HostSignal& signal : silent_) signals_.Add(signal);
    for (const HostSignal& signal : counts_) signals_.Add(signal);
    signals_.MoveTo(&fragment_);
    if (world_size_ > 0) {
      fragment_.notes.push_back("the job has " + Counted(world_size_, "GPU") + "; " +
                                Counted(answers_, "answer") + " of RAS read");
    }
    return Status::Ok();
  }

 private:
  void BeginAnswer() {
    EndAnswer();
    any_ = true;
    ++answers_;
    dead_ = false;
    after_summary_ = false;
    comm_ = nullptr;
  }

  // The counts of this answer against those of the one before.
  void EndAnswer() {
    for (const auto& [hash, comm] : comms_) {
      if (!comm.mismatch || !comm.counts) continue;
      const auto before = earlier_.find(hash);
      const bool still = before != earlier_.end() && before->second.statements == comm.statements;
      HostSignal signal;
      signal.kind = SignalKind::kCountsDiffer;
      signal.device = "communicator " + hash;
      signal.value = still ? 1 : 0;
      signal.text = "communicator " + hash + ": ";
      for (size_t i = 0; i < comm.statements.size() && i < 4; ++i) {
        signal.text += (i > 0 ? ", " : "") + comm.statements[i];
      }
      if (still) signal.text += "; no other numbers in two answers";
      signal.source = source_;
      std::erase_if(counts_,
                    [&](const HostSignal& known) { return known.device == signal.device; });
      counts_.push_back(std::move(signal));
    }
    earlier_ = std::move(comms_);
    comms_.clear();
  }

  // "2          8            1         16       16"
  void Summary(std::string_view text) {
    after_summary_ = false;
    any_ = true;
    std::string_view last;
    while (!text.empty()) last = TakeWord(&text);
    const auto gpus = WholeNumber<uint32_t>(last);
    if (gpus && *gpus <= kMostRasRanks) world_size_ = *gpus;
  }

  // Group, communicators in it, nodes, ranks per node, ranks per communicator, ranks in the group,
  // status, errors. Numbers may be ranges.
  void TableRow(std::string_view text) {
    std::vector<std::string_view> words;
    while (!text.empty() && words.size() < 9) words.push_back(TakeWord(&text));
    if (words.size() < 8) return;
    any_ = true;
    const auto group = WholeNumber<uint32_t>(words[0]);
    const auto ranks = WholeNumber<uint32_t>(words[4]);
    if (group && ranks) group_ranks_[*group] = *ranks;
  }

  void BeginComm(std::string_view text) {
    const auto hash = Between(text, "(", ")");
    const auto group = LeadingNumber<uint32_t>(text.substr(1));
    comm_ = nullptr;
    if (!hash || comms_.size() >= kMostComms) return;
    any_ = true;
    comm_ = &comms_[std::string(*hash)];
    comm_->hash = *hash;
    comm_->mismatch = Has(text, "MISMATCH");
    const auto ranks = group ? group_ranks_.find(*group) : group_ranks_.end();
    of_all_ = ranks != group_ranks_.end() && world_size_ != 0 && ranks->second == world_size_;
  }

  void CommLine(std::string_view text) {
    if (comm_->mismatch) {
      if (Has(text, "operation counts")) comm_->counts = true;
      if (Has(text, " launched up to ") && comm_->statements.size() < 64) {
        comm_->statements.emplace_back(text.substr(0, 200));
      }
      return;
    }
    if (const auto listed = ParseListedRank(text)) {
      if (of_all_) ranks_by_process_[{listed->node, listed->pid}].insert(listed->rank);
      Miss({listed->pid, listed->node, listed->gpu, false, std::nullopt}, false);
      return;
    }
    if (text.starts_with("The missing rank") && of_all_) {
      for (const uint32_t rank : ParseRankList(Between(text, ": ", "").value_or(""))) {
        missing_ranks_.insert(rank);
      }
    }
  }

  void Miss(Missing missing, bool dead) {
    missing.dead = dead;
    for (Missing& known : missing_) {
      if (known.pid != missing.pid || known.node != missing.node) continue;
      known.dead = known.dead || dead;
      return;
    }
    if (missing_.size() < kMostProcesses) missing_.push_back(std::move(missing));
  }

  // Ranks of the communicator of all are those of the job.
  void NameRanks() {
    for (Missing& process : missing_) {
      const auto found = ranks_by_process_.find({process.node, process.pid});
      if (found != ranks_by_process_.end() && found->second.size() == 1) {
        process.rank = *found->second.begin();
      }
    }
    if (missing_.size() == 1 && missing_ranks_.size() == 1)
      missing_[0].rank = *missing_ranks_.begin();
  }

  void Tell(const Missing& process) {
    HostSignal& signal = silent_.emplace_back();
    signal.kind = SignalKind::kUnreachable;
    if (process.rank) signal.rank = Rank(*process.rank);
    signal.node = process.node;
    signal.device = process.gpu;
    signal.value = process.dead ? 1 : 0;
    signal.text = "process " + std::to_string(process.pid) + " on node " + process.node +
                  (process.gpu.empty() ? "" : " (" + process.gpu + ")") +
                  (process.dead ? " is considered dead by RAS" : " does not answer RAS");
    signal.source = source_;
  }

  Fragment& fragment_;
  std::string source_, version_, refusal_;
  bool any_ = false, after_summary_ = false, dead_ = false, of_all_ = false;
  uint32_t world_size_ = 0;
  uint64_t answers_ = 0;
  std::map<uint32_t, uint32_t> group_ranks_;  // ranks per communicator of a group
  std::map<std::string, CommTrouble> comms_, earlier_;
  CommTrouble* comm_ = nullptr;
  std::vector<Missing> missing_;
  std::map<std::pair<std::string, int64_t>, std::set<uint32_t>> ranks_by_process_;
  std::set<uint32_t> missing_ranks_;
  std::vector<HostSignal> silent_, counts_;
  SignalList signals_;
};

}  // namespace

std::unique_ptr<RasTextReader> MakeRasTextReader(Fragment* fragment) {
  return std::make_unique<TextReader>(fragment);
}

}  // namespace flare::import

// SPDX-License-Identifier: Apache-2.0
#include "diag/report/report_text.h"

#include <algorithm>
#include <map>
#include <set>

#include "diag/report/plain_text.h"
#include "diag/report/profile_text.h"
#include "diag/report/text_style.h"

namespace flare::diag {
namespace {

constexpr size_t kLabelColumns = 10;  // "  since   "
constexpr int kRankRows = 16;

const char* StateColor(const std::string& state) {
  if (state == "open") return "1;31";
  if (state == "suspected") return "33";
  return "2";
}

// "  label   text", continued under the text.
std::string Labelled(const TextOptions& options, const std::string& label,
                     const std::string& printable) {
  std::string head = "  " + label;
  head.resize(kLabelColumns, ' ');
  std::string out;
  for (const std::string& line : Wrap(printable, Width(options) - kLabelColumns)) {
    out += Dim(options, head) + line + "\n";
    head.assign(kLabelColumns, ' ');
  }
  return out;
}

std::string Kind(const v1::Finding& f) { return Printable(f.class_() + "/" + f.cause(), 200); }

template <typename Repeated>
std::vector<uint32_t> Ranks(const Repeated& ranks) {
  return std::vector<uint32_t>(ranks.begin(), ranks.end());
}

template <typename Repeated>
std::string Names(const Repeated& names, int most) {
  std::string out;
  for (int i = 0; i < names.size(); ++i) {
    if (i == most) return out + ", ... (" + std::to_string(names.size()) + " in all)";
    out += (i > 0 ? ", " : "") + Printable(names.Get(i), 200);
  }
  return out;
}

// "rank 2 on node-a", "ranks 0-3 on a, b", "link a-b", empty when nobody is named.
std::string Where(const v1::Finding& f) {
  std::string out;
  if (f.ranks_size() > 0) {
    out = (f.ranks_size() == 1 ? "rank " : "ranks ") + RankList(Ranks(f.ranks()));
  }
  if (f.nodes_size() > 0) {
    const std::string on = f.nodes_size() == 1 ? "node " : "nodes ";
    out += (out.empty() ? on : " on ") + Names(f.nodes(), 6);
  }
  if (f.links_size() > 0) out += (out.empty() ? "link " : ", link ") + Names(f.links(), 4);
  return out;
}

std::string EvidenceText(const v1::Evidence& e) {
  std::string out = Printable(e.text(), 1000);
  if (!e.has_value()) return out;
  out += out.empty() ? "" : ": ";
  out += Printable(e.metric(), 200) + (e.metric().empty() ? "" : " = ") + Number(e.value());
  const std::string unit = e.unit().empty() ? "" : " " + Printable(e.unit(), 40);
  out += unit;
  if (e.has_expected()) out += " (expected " + Number(e.expected()) + unit + ")";
  return out;
}

// The trouble began before anybody saw it, often by more than it lasted after: `--kill-on-hang` ends
// a job as soon as its finding opens.
uint64_t Began(const v1::Finding& f) {
  return f.since_unix_ns() == 0 ? f.first_seen_unix_ns()
                                : std::min(f.since_unix_ns(), f.first_seen_unix_ns());
}

std::string HowLong(const v1::Finding& f) {
  const bool past = f.state() == "resolved" || f.state() == "withdrawn";
  const bool to_the_end = f.state() == "resolved" && f.until_job_end();
  if (f.last_seen_unix_ns() <= Began(f)) return to_the_end ? "as the job ended" : "seen once";
  const std::string duration = DurationWords(f.last_seen_unix_ns() - Began(f));
  if (to_the_end) return "for " + duration + " until the job ended";
  return (past ? "lasted " : "for ") + duration;
}

std::string Since(const v1::Finding& f) {
  if (f.first_seen_unix_ns() == 0) {
    return "unknown; " + Number(f.gpu_hours_lost()) + " GPU-hours lost";
  }
  return UtcSeconds(Began(f)) + ", " + HowLong(f) + "; " + Number(f.gpu_hours_lost()) +
         " GPU-hours lost";
}

std::string Upper(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

std::string FindingText(const v1::Finding& f, const TextOptions& options) {
  const std::string state = Printable(f.state(), 40);
  const std::string kind = Kind(f);
  const std::string sure =
      Printable(f.severity(), 40) + ", " + Number(f.confidence() * 100) + " % sure";
  std::string out =
      Paint(options, StateColor(f.state()), Upper(state)) + "  " + Bold(options, kind);
  const bool fits = Columns(state) + Columns(kind) + Columns(sure) + 4 <= Width(options);
  out += fits ? "  " + sure + "\n" : "\n" + Labelled(options, "", sure);
  out += Labelled(options, "what", Printable(f.summary()));
  if (const std::string where = Where(f); !where.empty()) {
    out += Labelled(options, "where", where);
  }
  if (f.victims_size() > 0) {
    const std::string noun = f.victims_size() == 1 ? "rank " : "ranks ";
    out += Labelled(options, "waiting", noun + RankList(Ranks(f.victims())));
  }
  out += Labelled(options, "since", Since(f));
  std::string label = "why";
  for (const v1::Evidence& e : f.evidence()) {
    out += Labelled(options, label, EvidenceText(e));
    label.clear();
  }
  if (!f.action().empty()) out += Labelled(options, "do", Printable(f.action()));
  return out + Labelled(options, "team", Printable(f.team(), 100));
}

int StateOrder(const std::string& state) {
  if (state == "open") return 0;
  if (state == "suspected") return 1;
  return state == "resolved" ? 2 : 3;
}

std::vector<const v1::Finding*> Ordered(const v1::Report& report) {
  std::vector<const v1::Finding*> findings;
  for (const v1::Finding& f : report.findings()) findings.push_back(&f);
  std::stable_sort(findings.begin(), findings.end(),
                   [](const v1::Finding* a, const v1::Finding* b) {
                     return StateOrder(a->state()) < StateOrder(b->state());
                   });
  return findings;
}

int CountState(const v1::Report& report, const char* state) {
  return static_cast<int>(std::count_if(report.findings().begin(), report.findings().end(),
                                        [&](const v1::Finding& f) { return f.state() == state; }));
}

std::string JobName(const v1::JobSummary& job) {
  return Printable(job.name().empty() ? job.job() : job.name(), 100);
}

bool Imported(const v1::JobSummary& job) { return job.state() == "imported"; }

// Files tell of ranks, seldom whether they live.
std::string RankCount(const v1::JobSummary& job) {
  const uint32_t all = std::max(job.world_size(), job.ranks_seen());
  if (!Imported(job))
    return std::to_string(job.ranks_alive()) + " of " + Counted(all, "rank") + " alive";
  if (job.ranks_seen() == all) return Counted(all, "rank");
  return "files of " + std::to_string(job.ranks_seen()) + " of " + Counted(all, "rank");
}

std::string JobText(const v1::JobSummary& job, const TextOptions& options) {
  std::string name = JobName(job);
  std::string facts;
  if (name != job.job()) facts += "(" + Printable(job.job(), 200) + ") ";
  facts += Printable(job.state(), 40);
  if (job.exit_status() >= 0 && job.state() == "ended") {
    facts += " with status " + std::to_string(job.exit_status());
  }
  facts += ", " + RankCount(job);
  if (job.nodes_size() > 0) facts += " on " + Counted(job.nodes_size(), "node");
  if (!Imported(job) || job.steps() > 0) facts += ", step " + std::to_string(job.steps());
  if (job.step_seconds_median() > 0)
    facts += ", " + StepTime(job.step_seconds_median()) + " per step";
  if (job.attempt() > 0) facts += ", restarted " + Counted(job.attempt(), "time");
  if (!job.framework().empty()) facts += ", " + Printable(job.framework(), 100);
  std::string out = Labelled(options, "job", name + " " + facts);
  if (job.first_seen_unix_ns() != 0) {
    out += Labelled(
        options, "seen",
        UtcSeconds(job.first_seen_unix_ns()) + " to " + UtcSeconds(job.last_seen_unix_ns()));
  }
  return out;
}

constexpr int kNoteLines = 12;

std::string NotesText(const v1::Report& report, const TextOptions& options) {
  if (report.notes_size() == 0) return "";
  std::string out = Dim(options, "Notes on the files:") + "\n";
  for (int i = 0; i < report.notes_size() && i < kNoteLines; ++i) {
    std::string head = "  - ";
    for (const std::string& line : Wrap(Printable(report.notes(i), 1000), Width(options) - 4)) {
      out += head + line + "\n";
      head = "    ";
    }
  }
  if (report.notes_size() > kNoteLines) {
    out += Dim(options, "and " + Counted(report.notes_size() - kNoteLines, "more note") +
                            "; all of them with --json") +
           "\n";
  }
  return out;
}

std::vector<std::string> RankRow(const v1::RankSummary& rank) {
  std::string doing = Printable(rank.doing(), 300);
  if (!rank.exception().empty()) doing = Printable(rank.exception(), 300);
  std::string state = Printable(rank.state(), 40);
  if (rank.state() == "exited") state += " " + std::to_string(rank.exit_code());
  return {std::to_string(rank.rank()),
          Printable(rank.node(), 40),
          std::to_string(rank.pid()),
          state,
          std::to_string(rank.steps()),
          rank.step_seconds_median() > 0 ? StepTime(rank.step_seconds_median()) : "-",
          doing};
}

// All ranks of a small job; of a large one those that a reader asks for first: culprits, ranks that
// do not run, then the lowest.
std::string RanksText(const v1::Report& report, const TextOptions& options) {
  if (report.ranks_size() == 0) return "";
  std::set<uint32_t> culprits;
  for (const v1::Finding& f : report.findings())
    culprits.insert(f.ranks().begin(), f.ranks().end());
  std::vector<const v1::RankSummary*> chosen;
  for (const v1::RankSummary& rank : report.ranks()) chosen.push_back(&rank);
  const auto interest = [&](const v1::RankSummary* r) {
    if (culprits.contains(r->rank())) return 0;
    return r->state() == "running" ? 2 : 1;
  };
  if (report.ranks_size() > kRankRows) {
    std::stable_sort(chosen.begin(), chosen.end(),
                     [&](auto* a, auto* b) { return interest(a) < interest(b); });
    chosen.resize(kRankRows);
  }
  std::sort(chosen.begin(), chosen.end(), [](auto* a, auto* b) { return a->rank() < b->rank(); });
  std::vector<std::vector<std::string>> rows = {
      {"rank", "node", "pid", "state", "step", "per step", "doing"}};
  for (const v1::RankSummary* rank : chosen) rows.push_back(RankRow(*rank));
  std::string out = Table(rows, options);
  if (const int hidden = report.ranks_size() - static_cast<int>(chosen.size()); hidden > 0) {
    out += Dim(options, "and " + Counted(hidden, "more rank") + "; all of them with --json") + "\n";
  }
  return out;
}

}  // namespace

std::string RenderReport(const v1::Report& report, const TextOptions& options) {
  std::string out = JobText(report.job(), options) + "\n";
  for (const v1::Finding* finding : Ordered(report)) out += FindingText(*finding, options) + "\n";
  if (report.findings_size() == 0) {
    out += report.job().ranks_seen() == 0 && !Imported(report.job())
               ? "No rank seen, so nothing is known about this job.\n\n"
               : Paint(options, "32", "No findings.") + "\n\n";
  }
  out += RanksText(report, options);
  if (report.profiles_size() > 0) out += "\n" + ProfilesText(report, options);
  if (report.notes_size() > 0) out += "\n" + NotesText(report, options);
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

std::string RenderJobs(const std::vector<v1::JobSummary>& jobs, const TextOptions& options) {
  if (jobs.empty()) return "No jobs seen yet.\n";
  std::vector<std::vector<std::string>> rows = {
      {"name", "state", "ranks", "step", "per step", "open", "last seen", "job"}};
  for (const v1::JobSummary& job : jobs) {
    rows.push_back({Shorten(JobName(job), 24), Printable(job.state(), 40),
                    std::to_string(Imported(job) ? job.ranks_seen() : job.ranks_alive()) + "/" +
                        std::to_string(std::max(job.world_size(), job.ranks_seen())),
                    std::to_string(job.steps()),
                    job.step_seconds_median() > 0 ? StepTime(job.step_seconds_median()) : "-",
                    std::to_string(job.open_findings()),
                    job.last_seen_unix_ns() == 0 ? "-" : UtcSeconds(job.last_seen_unix_ns()),
                    Printable(job.job(), 200)});
  }
  return Table(rows, options);
}

std::string RenderOpened(const v1::Finding& finding, const TextOptions& options) {
  std::string out = Paint(options, StateColor("open"), "flare: " + Kind(finding)) + "\n";
  out += Labelled(options, "what", Printable(finding.summary()));
  if (const std::string where = Where(finding); !where.empty()) {
    out += Labelled(options, "where", where);
  }
  if (!finding.action().empty()) out += Labelled(options, "do", Printable(finding.action()));
  return out + Labelled(options, "team", Printable(finding.team(), 100));
}

std::string RenderChange(const v1::Finding& finding, const TextOptions& options) {
  std::string line = "flare: " + Printable(finding.state(), 40) + " " + Kind(finding);
  if (const std::string where = Where(finding); !where.empty()) line += " (" + where + ")";
  if (finding.state() == "suspected") line += ": " + Printable(finding.summary());
  return Dim(options, Shorten(line, Width(options))) + "\n";
}

std::string RenderSummary(const v1::Report& report, const TextOptions& options) {
  const v1::JobSummary& job = report.job();
  if (job.ranks_seen() == 0 && report.findings_size() == 0) {
    return "flare: no training rank was seen, so nothing was checked ('flare doctor' tells why)\n";
  }
  const int past_and_open = CountState(report, "open") + CountState(report, "resolved");
  std::string facts = Counted(job.ranks_seen(), "rank") + ", " + Counted(job.steps(), "step");
  if (job.step_seconds_median() > 0)
    facts += ", " + StepTime(job.step_seconds_median()) + " per step";
  if (past_and_open == 0) return "flare: no findings (" + facts + ")\n";
  const std::string head =
      "flare: " + Counted(past_and_open, "finding") + " in " + JobName(job) + " (" + facts + ")";
  std::string out;
  for (const std::string& line : Wrap(head, Width(options))) out += Bold(options, line) + "\n";
  out += "\n";
  for (const v1::Finding* finding : Ordered(report)) {
    if (StateOrder(finding->state()) == 0 || StateOrder(finding->state()) == 2) {
      out += FindingText(*finding, options) + "\n";
    }
  }
  out.pop_back();
  return out;
}

std::string ProgressLine(const v1::Report& report, size_t columns) {
  const v1::JobSummary& job = report.job();
  if (job.ranks_seen() == 0) return Shorten("flare: waiting for the first rank", columns);
  std::string line = "flare: " + std::to_string(job.ranks_alive()) + "/" +
                     std::to_string(std::max(job.world_size(), job.ranks_seen())) +
                     " ranks  step " + std::to_string(job.steps());
  if (job.step_seconds_median() > 0) line += "  " + StepTime(job.step_seconds_median()) + "/step";
  const int open = CountState(report, "open");
  const int suspected = CountState(report, "suspected");
  if (open > 0) {
    line += "  " + Counted(open, "open finding");
  } else if (suspected > 0) {
    line += "  " + Counted(suspected, "suspicion");
  } else {
    line += "  " + (job.state() == "running" ? "healthy" : Printable(job.state(), 40));
  }
  return Shorten(line, columns);
}

}  // namespace flare::diag

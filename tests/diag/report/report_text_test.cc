// SPDX-License-Identifier: Apache-2.0
#include "diag/report/report_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "diag/report/plain_text.h"
#include "tests/diag/report/sample_report.h"

namespace flare::diag {
namespace {

using testing::HasSubstr;
using testing::Not;

size_t LongestLine(const std::string& text) {
  size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, Columns(line));
  return longest;
}

TEST(ReportTextTest, AnswersEveryQuestionOfTheReader) {
  const std::string text = RenderReport(SampleReport(), {});
  for (const char* part :
       {"OPEN  hang/process_stopped", "high, 99 % sure", "rank 2 on node-a", "ranks 0, 1, 3",
        "2026-03-14 14:00:02 UTC, for 12 s", "0.0133 GPU-hours lost",
        "state of the process: stopped = 12 s (expected 0 s)", "kill -CONT 4711", "operations"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(ReportTextTest, EscapeSequencesOnlyWhenAsked) {
  EXPECT_THAT(RenderReport(SampleReport(), {.color = false}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(RenderReport(SampleReport(), {.color = true}), HasSubstr("\x1b[1;31mOPEN\x1b[0m"));
}

TEST(ReportTextTest, FitsTheTerminal) {
  for (const size_t columns : {40u, 60u, 80u, 200u}) {
    EXPECT_LE(LongestLine(RenderReport(SampleReport(), {.columns = columns})), columns);
    EXPECT_LE(LongestLine(RenderJobs({SampleReport().job()}, {.columns = columns})), columns);
    EXPECT_LE(LongestLine(RenderSummary(SampleReport(), {.columns = columns})), columns);
    EXPECT_LE(Columns(ProgressLine(SampleReport(), columns)), columns);
  }
}

TEST(ReportTextTest, HostileTextOfTheJobCannotSteerTheTerminal) {
  const std::string evil = "\x1b]0;pwned\x07\x1b[2J\r\n\u202e";
  v1::Report report = SampleReport();
  report.mutable_job()->set_name(evil);
  report.mutable_job()->set_framework(evil);
  report.mutable_job()->set_state(evil);
  v1::Finding* f = report.mutable_findings(0);
  for (std::string* field :
       {f->mutable_summary(), f->mutable_action(), f->mutable_cause(), f->mutable_team(),
        f->mutable_severity(), f->mutable_nodes(0), f->mutable_links(0),
        f->mutable_evidence(0)->mutable_text(), f->mutable_evidence(0)->mutable_unit()}) {
    *field = evil;
  }
  report.mutable_ranks(0)->set_doing(evil);
  report.mutable_ranks(1)->set_exception(evil);
  report.mutable_ranks(1)->set_node(evil);
  for (const std::string& text :
       {RenderReport(report, {}), RenderSummary(report, {}), RenderJobs({report.job()}, {}),
        RenderOpened(*f, {}), RenderChange(*f, {}), ProgressLine(report, 80) + "\n"}) {
    for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
    EXPECT_THAT(text, Not(HasSubstr("\u202e")));
  }
}

TEST(ReportTextTest, OpenFindingsComeFirst) {
  v1::Report report = SampleReport();
  *report.add_findings() = SampleFinding();
  report.mutable_findings(0)->set_state("withdrawn");
  const std::string text = RenderReport(report, {});
  EXPECT_LT(text.find("OPEN"), text.find("WITHDRAWN"));
}

TEST(ReportTextTest, LargeJobShowsCulpritsAndSaysWhatIsHidden) {
  v1::Report report = SampleReport();
  report.clear_ranks();
  for (uint32_t rank = 0; rank < 1000; ++rank) {
    report.add_ranks()->set_rank(rank);
    report.mutable_ranks(rank)->set_state(rank == 777 ? "died" : "running");
    report.mutable_ranks(rank)->set_node("n" + std::to_string(rank));
  }
  report.mutable_findings(0)->set_ranks(0, 900);
  const std::string text = RenderReport(report, {});
  EXPECT_THAT(text, HasSubstr("n777"));
  EXPECT_THAT(text, HasSubstr("n900"));
  EXPECT_THAT(text, HasSubstr("984 more ranks"));
}

TEST(ReportTextTest, ProfilesAreATable) {
  const std::string text = RenderReport(SampleReport(), {.columns = 100});
  EXPECT_THAT(text,
              HasSubstr("rank  steps  per step  GPU busy  compute  communic.  overlap  idle"));
  EXPECT_THAT(text,
              HasSubstr("0     5      20 ms     75.0 %    60.0 %   30.0 %     50.0 %   25.0 %"));
}

TEST(ReportTextTest, OfManyProfilesThoseFurthestFromTheMiddleAreShown) {
  v1::Report report = SampleReport();
  report.clear_findings();
  report.clear_profiles();
  for (uint32_t rank = 0; rank < 100; ++rank) AddSampleProfile(rank, &report);
  report.mutable_profiles(77)->mutable_device()->set_busy_ns(1'000'000);
  const std::string text = RenderReport(report, {.columns = 100});
  EXPECT_THAT(text, HasSubstr("\n77    5"));
  EXPECT_THAT(text, HasSubstr("and 84 more ranks nearer to the middle"));
}

TEST(ReportTextTest, NotesAreShownAndCannotSteerTheTerminal) {
  v1::Report report = SampleReport();
  for (int i = 0; i < 30; ++i) report.add_notes("note \x1b[2J");
  const std::string text = RenderReport(report, {});
  EXPECT_THAT(text, HasSubstr("  - a file of no known kind left out: README\n"));
  EXPECT_THAT(text, HasSubstr("note \\x1b[2J"));
  EXPECT_THAT(text, HasSubstr("and 19 more notes"));
}

TEST(ReportTextTest, ImportedJobHasRanksButNoneAlive) {
  v1::Report report = SampleReport();
  report.mutable_job()->set_state("imported");
  report.mutable_job()->set_world_size(16);
  EXPECT_THAT(RenderReport(report, {}), HasSubstr("imported, files of 4 of 16 ranks on 1 node"));
  report.mutable_job()->set_world_size(4);
  report.mutable_job()->set_steps(0);
  EXPECT_THAT(RenderReport(report, {}), HasSubstr("imported, 4 ranks on 1 node, 0.42 s per step"));
}

TEST(ReportTextTest, HealthyJobEndsInOneLine) {
  v1::Report report = SampleReport();
  report.clear_findings();
  EXPECT_EQ(RenderSummary(report, {}),
            "flare: no findings (4 ranks, 512 steps, 0.42 s per step)\n");
}

TEST(ReportTextTest, SuspicionsThatNeverOpenedAreNotInTheSummary) {
  v1::Report report = SampleReport();
  report.mutable_findings(0)->set_state("suspected");
  EXPECT_THAT(RenderSummary(report, {}), HasSubstr("no findings"));
  report.mutable_findings(0)->set_state("withdrawn");
  EXPECT_THAT(RenderSummary(report, {}), HasSubstr("no findings"));
}

TEST(ReportTextTest, ResolvedFindingsAreInTheSummary) {
  v1::Report report = SampleReport();
  report.mutable_findings(0)->set_state("resolved");
  EXPECT_THAT(RenderSummary(report, {}), HasSubstr("RESOLVED  hang/process_stopped"));
}

// Ended by --kill-on-hang in the moment it opened: what counts is when the trouble began.
TEST(ReportTextTest, DurationRunsFromTheBeginOfTheTroubleToTheEndOfTheJob) {
  v1::Report report = SampleReport();
  v1::Finding* f = report.mutable_findings(0);
  f->set_state("resolved");
  f->set_last_seen_unix_ns(f->first_seen_unix_ns());
  EXPECT_THAT(RenderReport(report, {}), HasSubstr("seen once"));
  f->set_until_job_end(true);
  EXPECT_THAT(RenderReport(report, {}), HasSubstr("14:00:02 UTC, as the job ended"));
  f->set_since_unix_ns(f->first_seen_unix_ns() - 3'000'000'000);
  EXPECT_THAT(RenderReport(report, {}),
              HasSubstr("13:59:59 UTC, for 3 s until the job ended; 0.0133 GPU-hours"));
  f->set_until_job_end(false);
  EXPECT_THAT(RenderReport(report, {}), HasSubstr("13:59:59 UTC, lasted 3 s"));
}

TEST(ReportTextTest, AbsentRanksAreNotCalledHealthy) {
  EXPECT_THAT(RenderSummary({}, {}), HasSubstr("nothing was checked"));
  EXPECT_THAT(RenderReport({}, {}), Not(HasSubstr("No findings")));
  EXPECT_THAT(ProgressLine({}, 80), HasSubstr("waiting for the first rank"));
}

TEST(ReportTextTest, ProgressTellsTheWorstFirst) {
  v1::Report report = SampleReport();
  EXPECT_EQ(ProgressLine(report, 80), "flare: 4/4 ranks  step 512  0.42 s/step  1 open finding");
  report.mutable_findings(0)->set_state("suspected");
  EXPECT_THAT(ProgressLine(report, 80), HasSubstr("1 suspicion"));
  report.clear_findings();
  EXPECT_THAT(ProgressLine(report, 80), HasSubstr("stalled"));
}

TEST(ReportTextTest, ChangeIsOneLine) {
  v1::Finding f = SampleFinding();
  f.set_state("suspected");
  const std::string line = RenderChange(f, {.columns = 60});
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_THAT(line, HasSubstr("flare: suspected hang/process_stopped (rank 2"));
}

}  // namespace
}  // namespace flare::diag

// SPDX-License-Identifier: Apache-2.0
#include "diag/report/report_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/diag/report/sample_report.h"

namespace flare::diag {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;

std::vector<std::string> Keys(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) keys.push_back(item.key());
  return keys;
}

// The names are a contract with scripts: this list changes only by additions.
TEST(ReportJsonTest, KeysAndTheirOrderAreTheContract) {
  const Json json = ReportJson(SampleReport());
  EXPECT_THAT(Keys(json), ElementsAre("schema", "job", "findings", "ranks", "profiles", "notes"));
  EXPECT_THAT(Keys(json["findings"][0]),
              ElementsAre("id", "class", "cause", "team", "ranks", "nodes", "links", "confidence",
                          "severity", "state", "first_seen", "last_seen", "gpu_hours_lost",
                          "summary", "action", "evidence", "victims"));
  EXPECT_THAT(Keys(json["findings"][0]["evidence"][0]),
              ElementsAre("text", "metric", "value", "unit", "expected"));
  EXPECT_THAT(Keys(json["job"]),
              ElementsAre("id", "name", "attempt", "world_size", "ranks_seen", "ranks_alive",
                          "state", "first_seen", "last_seen", "steps", "step_seconds_median",
                          "open_findings", "nodes", "framework", "exit_status", "imported"));
  EXPECT_THAT(Keys(json["ranks"][0]),
              ElementsAre("rank", "node", "pid", "state", "steps", "step_seconds_median", "doing",
                          "exit_code", "exception", "parts"));
  EXPECT_THAT(Keys(json["profiles"][0]),
              ElementsAre("rank", "steps", "step_seconds_mean", "devices", "streams", "kernels",
                          "communication_kernels", "memory_operations", "observed_seconds",
                          "busy_share", "idle_share", "compute_share", "communication_share",
                          "memory_share", "exposed_communication_share", "between_steps_share",
                          "overlap_share", "issue_latency", "classes"));
}

TEST(ReportJsonTest, ProfilesAreShares) {
  const Json profile = ReportJson(SampleReport())["profiles"][0];
  EXPECT_EQ(profile["busy_share"], 0.75);
  EXPECT_EQ(profile["overlap_share"], 0.5);
  EXPECT_DOUBLE_EQ(profile["step_seconds_mean"], 0.02);
  EXPECT_TRUE(profile["issue_latency"]["communication"]["median_seconds"].is_null());
  EXPECT_EQ(profile["issue_latency"]["compute"]["count"], 3);
  EXPECT_EQ(profile["classes"][0]["class"], "gemm");
}

TEST(ReportJsonTest, ValuesAreCarriedOver) {
  const Json finding = FindingJson(SampleFinding());
  EXPECT_EQ(finding["class"], "hang");
  EXPECT_EQ(finding["ranks"], Json({2}));
  EXPECT_EQ(finding["victims"], Json({0, 1, 3}));
  EXPECT_EQ(finding["first_seen"], "2026-03-14T14:00:02.123Z");
  EXPECT_EQ(finding["evidence"][0]["value"], 12.0);
  EXPECT_EQ(finding["evidence"][0]["expected"], 0.0);
}

TEST(ReportJsonTest, UnknownValuesAreNull) {
  v1::Report report;
  report.mutable_job()->set_exit_status(-1);
  report.add_findings()->add_evidence()->set_value(3);
  report.add_ranks();
  const Json json = ReportJson(report);
  EXPECT_TRUE(json["job"]["first_seen"].is_null());
  EXPECT_TRUE(json["job"]["step_seconds_median"].is_null());
  EXPECT_TRUE(json["job"]["exit_status"].is_null());
  EXPECT_TRUE(json["findings"][0]["evidence"][0]["value"].is_null());
  EXPECT_TRUE(json["ranks"][0]["exit_code"].is_null());
}

TEST(ReportJsonTest, BrokenTextAndNumbersStillGiveValidJson) {
  v1::Finding finding = SampleFinding();
  finding.set_gpu_hours_lost(std::numeric_limits<double>::quiet_NaN());
  Json json = FindingJson(finding);
  json["summary"] = std::string("rank \xff\x1b[31m \0 </script>", 22);
  const Json back = Json::parse(JsonText(json, 2));
  EXPECT_EQ(back["summary"].get<std::string>(),
            std::string("rank \xef\xbf\xbd\x1b[31m \0 </script>", 24));
  EXPECT_TRUE(back["gpu_hours_lost"].is_null());
}

TEST(ReportJsonTest, OneLineFormHasNoNewline) {
  const std::string text = JsonText(ReportJson(SampleReport()), -1);
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(ReportJsonTest, JobsAreAList) {
  const Json json = JobsJson({SampleReport().job()});
  EXPECT_EQ(json["schema"], "flare.jobs.v1");
  EXPECT_EQ(json["jobs"][0]["id"], "demo-1");
  EXPECT_EQ(JobsJson({})["jobs"], Json::array());
}

}  // namespace
}  // namespace flare::diag

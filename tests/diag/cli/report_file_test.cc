// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/report_file.h"

#include <gtest/gtest.h>

#include "diag/cli/atomic_file.h"
#include "nlohmann/json.hpp"
#include "tests/diag/cli/temporary_folder.h"
#include "tests/diag/report/sample_report.h"

namespace flare::cli {
namespace {

class ReportFileTest : public testing::Test {
 protected:
  nlohmann::json OnDisk() { return nlohmann::json::parse(*ReadSmallFile(path_)); }
  TemporaryFolder folder_;
  std::string path_ = folder_ / "report.json";
  ReportFile file_{path_};
  v1::Report report_ = diag::SampleReport();
  ReportFile::Clock::time_point now_{std::chrono::hours(1)};
};

TEST_F(ReportFileTest, ChangeOfAFindingIsWrittenAtOnce) {
  ASSERT_TRUE(file_.Update(report_, now_).ok());
  report_.mutable_findings(0)->set_state("resolved");
  ASSERT_TRUE(file_.Update(report_, now_).ok());
  EXPECT_EQ(OnDisk()["findings"][0]["state"], "resolved");
}

TEST_F(ReportFileTest, ProgressIsWrittenNowAndThen) {
  ASSERT_TRUE(file_.Update(report_, now_).ok());
  report_.mutable_job()->set_steps(513);
  report_.mutable_findings(0)->set_gpu_hours_lost(1);
  ASSERT_TRUE(file_.Update(report_, now_ + std::chrono::seconds(1)).ok());
  EXPECT_EQ(OnDisk()["job"]["steps"], 512);
  ASSERT_TRUE(file_.Update(report_, now_ + std::chrono::seconds(2)).ok());
  EXPECT_EQ(OnDisk()["job"]["steps"], 513);
}

TEST_F(ReportFileTest, WithoutAPathNothingIsWritten) {
  ReportFile none("");
  EXPECT_TRUE(none.Write(report_).ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

}  // namespace
}  // namespace flare::cli

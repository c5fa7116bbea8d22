// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/diag/import/read_text.h"

namespace flare::import {
namespace {

using diag::SignalKind;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(DcgmTest, FailedTestsOfTheDiagnosticNameTheirGpus) {
  const Fragment fragment = MustRead(R"(Successfully ran diagnostic for group.
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Deployment  --------+------------------------------------------------|
| Denylist                  | Pass                                           |
|-----  Integration  -------+------------------------------------------------|
| PCIe                      | Fail - GPUs: 2, 3                              |
| Warning                   | GPU 2: link is narrower than expected          |
|-----  Hardware  ----------+------------------------------------------------|
| GPU Memory                | Skip - All                                     |
| Diagnostic                | Fail - GPU: 5                                  |
+---------------------------+------------------------------------------------+
)",
                                     "dcgmi");
  ASSERT_EQ(fragment.signals.size(), 3u);
  EXPECT_EQ(fragment.signals[0].kind, SignalKind::kPcieErrors);
  EXPECT_EQ(fragment.signals[0].device, "GPU 2");
  EXPECT_THAT(fragment.signals[0].text, HasSubstr("narrower than expected"));
  EXPECT_EQ(fragment.signals[1].device, "GPU 3");
  EXPECT_EQ(fragment.signals[2].kind, SignalKind::kNodeFault);
  EXPECT_THAT(fragment.signals[2].device, HasSubstr("GPU 5"));
}

TEST(DcgmTest, HealthReportNamesGpuAndSystem) {
  const Fragment fragment =
      MustRead(R"(+---------------------------+----------------------------------------+
| Health Monitor Report                                                |
+===========================+========================================+
| Overall Health            | Failure                                |
| GPU                       |                                        |
| -> 1                      | Failure                                |
|    -> Errors              |                                        |
|       -> NVLink system    | Failure                                |
|                           | GPU 1's NvLink link 3 is currently     |
|                           | down                                   |
+---------------------------+----------------------------------------+
)",
               "dcgmi");
  ASSERT_EQ(fragment.signals.size(), 1u);
  EXPECT_EQ(fragment.signals[0].kind, SignalKind::kNvlinkDown);
  EXPECT_EQ(fragment.signals[0].device, "GPU 1");
  EXPECT_THAT(fragment.signals[0].text, HasSubstr("is currently down"));
}

TEST(DcgmTest, HealthyTableSaysNothing) {
  EXPECT_THAT(MustRead(R"(+----------------+
| Health Monitor Report                       |
| Overall Health            | Healthy         |
+----------------+
)",
                       "dcgmi")
                  .signals,
              IsEmpty());
}

TEST(DcgmTest, JsonOfTheDiagnosticIsRead) {
  const Fragment fragment = MustRead(R"({"DCGM GPU Diagnostic": {"test_categories": [
    {"category": "Hardware", "tests": [
      {"name": "GPU Memory", "results": [
        {"gpu_ids": "0", "status": "PASS"},
        {"gpu_ids": "3", "status": "FAIL", "warnings": ["A DBE was found", "second"]}]}]}]}})",
                                     "dcgmi-json");
  ASSERT_EQ(fragment.signals.size(), 1u);
  EXPECT_EQ(fragment.signals[0].kind, SignalKind::kEcc);
  EXPECT_EQ(fragment.signals[0].device, "GPU 3");
  EXPECT_THAT(fragment.signals[0].text, HasSubstr("A DBE was found second"));
}

TEST(DcgmTest, JsonOfHealthIsRead) {
  const Fragment fragment = MustRead(R"({"body": {"Overall Health": {"value": "Failure"},
    "GPU": {"children": {"2": {"value": "Failure", "children": {"Errors": {"children": {
      "PCIe system": {"value": "Warning", "children": {"e": {"message": "9 replays"}}}}}}}}}}})",
                                     "dcgmi-json");
  ASSERT_EQ(fragment.signals.size(), 1u);
  EXPECT_EQ(fragment.signals[0].kind, SignalKind::kPcieErrors);
  EXPECT_EQ(fragment.signals[0].code, 0);
  EXPECT_EQ(fragment.signals[0].device, "GPU 2");
}

}  // namespace
}  // namespace flare::import

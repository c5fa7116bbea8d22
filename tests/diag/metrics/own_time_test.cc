// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/own_time.h"

#include <gtest/gtest.h>

namespace flare::diag {
namespace {

struct Case {
  const char* name;
  uint64_t duration, communication, data, checkpoint, gc;
  uint64_t own, compute;
};

class OwnTimeTest : public testing::TestWithParam<Case> {};

TEST_P(OwnTimeTest, SplitsTheStep) {
  const Case& c = GetParam();
  RankStep step;
  step.duration_ns = c.duration;
  step.communication_ns = c.communication;
  step.phases = {{EventKind::kDataLoad, "", 1, c.data, c.data},
                 {EventKind::kCheckpoint, "", 1, c.checkpoint, c.checkpoint},
                 {EventKind::kGc, "", 1, c.gc, c.gc},
                 {EventKind::kBackward, "", 1, 999, 999}};
  const OwnTime time = OwnTimeOf(step);
  EXPECT_EQ(time.own_ns, c.own);
  EXPECT_EQ(time.compute_ns, c.compute);
  EXPECT_EQ(time.data_load_ns, c.data);
}

INSTANTIATE_TEST_SUITE_P(Table, OwnTimeTest,
                         testing::Values(Case{"plain", 100, 30, 0, 0, 0, 70, 70},
                                         Case{"data", 100, 30, 20, 0, 0, 70, 50},
                                         Case{"all", 100, 30, 20, 10, 5, 70, 35},
                                         Case{"communication_beyond_step", 100, 130, 0, 0, 0, 0, 0},
                                         Case{"phases_beyond_own", 100, 60, 50, 10, 0, 40, 0}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace flare::diag

// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/late_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace flare::diag {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint64_t kMs = 1'000'000;

// A profile of one step of 600 ms: 100 ms of computing by 500 kernels, `calls` collectives. Who
// comes late to a collective makes the others wait for 5 ms in it.
class ProfileBuilder {
 public:
  ProfileBuilder(uint32_t ranks, uint32_t calls) {
    for (uint32_t r = 0; r < ranks; ++r) {
      RankRecord& record = job.ranks[Rank(r)];
      record.rank = Rank(r);
      RankStep& step = record.steps.emplace_back();
      step.step = StepId(7);
      step.start_unix_ns = 1'700'000'000'000'000'000;
      step.duration_ns = 600 * kMs;
      CommunicatorStep& comm = step.communicators.emplace_back();
      comm.communicator = CommId(3);
      comm.count = calls;
      comm.duration_us.assign(calls, 1000);
      DeviceStep& device = record.recording.emplace();
      device.kernels = 500 + calls;
      device.communication_kernels = calls;
      device.span_ns = 600 * kMs;
      device.compute_ns = 100 * kMs;
      device.communication_ns = 480 * kMs;
      device.busy_ns = 580 * kMs;
      device.compute_issue_latency.Add(20 * kMs, 500);
    }
  }

  // From call `first` on, each `every` calls.
  ProfileBuilder& Late(uint32_t rank, uint32_t first, uint32_t every) {
    for (auto& [r, record] : job.ranks) {
      if (r == Rank(rank)) continue;
      auto& durations = record.steps[0].communicators[0].duration_us;
      for (size_t i = first; i < durations.size(); i += every) durations[i] = 6000;
    }
    return *this;
  }
  DeviceStep& Device(uint32_t rank) { return *job.ranks.at(Rank(rank)).recording; }
  // Communicates less for this long, and does so instead.
  ProfileBuilder& Idles(uint32_t rank, uint64_t ms) {
    Device(rank).communication_ns -= ms * kMs;
    Device(rank).busy_ns -= ms * kMs;
    return *this;
  }
  ProfileBuilder& Computes(uint32_t rank, uint64_t ms) {
    Device(rank).communication_ns -= ms * kMs;
    Device(rank).compute_ns += ms * kMs;
    return *this;
  }
  ProfileBuilder& Latency(uint32_t rank, uint64_t us) {
    Device(rank).compute_issue_latency = {};
    Device(rank).compute_issue_latency.Add(us * 1000, 500);
    return *this;
  }
  std::vector<Verdict> Detect() const { return DetectLateRank(job, 0); }

  Job job;
};

TEST(LateRankTest, HostThatLaunchesLateIsToldFromASlowDevice) {
  ProfileBuilder profile(8, 80);
  profile.Late(5, 0, 2).Idles(5, 200).Latency(5, 600);
  const auto verdicts = profile.Detect();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].finding_class, "fail_slow");
  EXPECT_EQ(verdicts[0].cause, "cpu_contention");
  EXPECT_THAT(verdicts[0].ranks, ElementsAre(Rank(5)));
  EXPECT_THAT(verdicts[0].victims, SizeIs(7));
  EXPECT_FALSE(verdicts[0].conclusive);
  EXPECT_EQ(verdicts[0].open_after_unix_ns, 0u);
  EXPECT_THAT(verdicts[0].summary, HasSubstr("last to 40 of 40 collectives"));
  EXPECT_NEAR(verdicts[0].lost_share, 40 * 5.0 / 600 * 7 / 8, 0.001);
}

TEST(LateRankTest, SameKernelsThatTakeLongerAreASlowDevice) {
  ProfileBuilder profile(8, 80);
  profile.Late(2, 0, 2).Computes(2, 150);
  ASSERT_THAT(profile.Detect(), SizeIs(1));
  EXPECT_EQ(profile.Detect()[0].cause, "compute_slow");
}

TEST(LateRankTest, MoreKernelsAreMoreWork) {
  ProfileBuilder profile(8, 80);
  profile.Late(2, 0, 2).Computes(2, 150);
  profile.Device(2).kernels += 100;
  ASSERT_THAT(profile.Detect(), SizeIs(1));
  EXPECT_EQ(profile.Detect()[0].cause, "load_imbalance");
  EXPECT_EQ(profile.Detect()[0].finding_class, "regression");
}

TEST(LateRankTest, WaitingForDataExplainsAnIdleDevice) {
  ProfileBuilder profile(8, 80);
  profile.Late(2, 0, 2).Idles(2, 150).Latency(2, 10);
  profile.job.ranks.at(Rank(2)).steps[0].phases.push_back(
      {EventKind::kDataLoad, "next", 1, 140 * kMs, 140 * kMs});
  ASSERT_THAT(profile.Detect(), SizeIs(1));
  EXPECT_EQ(profile.Detect()[0].cause, "data_worker_slow");
}

TEST(LateRankTest, IdleDeviceWithFullQueuesHasNoCauseFound) {
  ProfileBuilder profile(8, 80);
  profile.Late(2, 0, 2).Idles(2, 150);
  ASSERT_THAT(profile.Detect(), SizeIs(1));
  EXPECT_EQ(profile.Detect()[0].cause, "cause_not_found");
}

TEST(LateRankTest, SeveralRanksOfOneCauseAreOneVerdict) {
  ProfileBuilder profile(8, 80);
  profile.Late(0, 0, 2).Idles(0, 200).Latency(0, 600);
  profile.Late(6, 1, 2).Idles(6, 180).Latency(6, 900);
  ASSERT_THAT(profile.Detect(), SizeIs(1));
  EXPECT_THAT(profile.Detect()[0].ranks, ElementsAre(Rank(0), Rank(6)));
}

TEST(LateRankTest, LastInFiveOfEightIsNotEnough) {
  ProfileBuilder profile(8, 8);
  for (const uint32_t call : {0, 2, 4, 5, 7}) profile.Late(7, call, 100);
  profile.Idles(7, 200).Latency(7, 10);
  EXPECT_THAT(profile.Detect(), IsEmpty());
}

TEST(LateRankTest, OneLongStallIsNoPattern) {
  ProfileBuilder profile(8, 80);
  for (auto& [rank, record] : profile.job.ranks) {
    if (rank != Rank(3)) record.steps[0].communicators[0].duration_us[10] = 300'000;
  }
  profile.Idles(3, 300).Latency(3, 10);
  EXPECT_THAT(profile.Detect(), IsEmpty());
}

TEST(LateRankTest, LateWithoutCostOrWithoutOwnTimeIsNoFinding) {
  ProfileBuilder cheap(8, 80);  // always last, by 0.1 ms of 600 in all
  for (auto& [rank, record] : cheap.job.ranks) {
    if (rank != Rank(3)) record.steps[0].communicators[0].duration_us.assign(80, 1100);
  }
  EXPECT_THAT(cheap.Detect(), IsEmpty());
  ProfileBuilder same(8, 80);  // nothing on its device explains it
  same.Late(3, 0, 2);
  EXPECT_THAT(same.Detect(), IsEmpty());
}

TEST(LateRankTest, RanksThatWereNotRecordedForbidAVerdict) {
  ProfileBuilder profile(8, 80);
  profile.Late(5, 0, 2).Idles(5, 200).Latency(5, 600);
  profile.job.ranks.at(Rank(1)).recording.reset();
  EXPECT_THAT(profile.Detect(), IsEmpty());
}

TEST(LateRankTest, WhenHalfTheRanksAreLateNobodyIs) {
  ProfileBuilder profile(2, 80);
  profile.Late(0, 0, 1).Idles(0, 200);
  EXPECT_THAT(profile.Detect(), SizeIs(1));
  ProfileBuilder quarters(4, 200);
  quarters.Late(0, 0, 3).Idles(0, 200).Late(1, 1, 3).Idles(1, 200).Late(2, 2, 3).Idles(2, 200);
  EXPECT_THAT(quarters.Detect(), IsEmpty());
}

TEST(LateRankTest, EnoughStepsAreLeftToTheTestOfSteps) {
  ProfileBuilder profile(8, 80);
  profile.Late(5, 0, 2).Idles(5, 200).Latency(5, 600);
  for (auto& [rank, record] : profile.job.ranks) {
    for (uint64_t s = 1; s < 9; ++s) {
      RankStep step = record.steps.front();
      step.step = StepId(7 + s);
      step.start_unix_ns += s * 600 * kMs;
      record.steps.push_back(step);
    }
  }
  EXPECT_THAT(profile.Detect(), IsEmpty());
}

}  // namespace
}  // namespace flare::diag

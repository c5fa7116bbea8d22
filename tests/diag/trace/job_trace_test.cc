// SPDX-License-Identifier: Apache-2.0
#include "diag/trace/job_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "diag/import/importer.h"
#include "diag/import/input.h"
#include "diag/store/convert.h"

namespace flare::diag {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

enum class Format { kChrome, kPerfetto };

v1::RankStep StepOf(uint64_t source, uint64_t number) {
  v1::RankStep step;
  step.set_source(source);
  step.set_step(number);
  step.set_start_unix_ns(1'706'850'122'862'403'217 + number * 1'000'000'007);
  step.set_duration_ns(999'999'999 + number);
  step.set_communication_ns(123'456'789);
  v1::CommunicatorStep* communicator = step.add_communicators();
  communicator->set_communicator(0xfedcba9876543210);
  communicator->set_first_sequence(10 * number);
  communicator->set_count(2);
  communicator->add_duration_us(17);
  communicator->add_duration_us(4'000'000'000);
  communicator->set_signature_hash(0xffffffffffffffff);
  DeviceStep device;
  device.kernels = 7;
  device.span_ns = 900;
  device.busy_ns = 600;
  for (uint64_t ns : {1, 10, 1000, 1'000'000}) device.compute_issue_latency.Add(ns * number);
  *step.mutable_device() = DeviceToProto(device);
  return step;
}

JobMemory JobOf(uint32_t ranks, uint64_t steps) {
  JobMemory job;
  job.job.summary.set_job("train-7");
  job.job.summary.set_name("bad \xff name \"quoted\"\n");
  job.job.summary.set_world_size(ranks);
  for (uint32_t r = 0; r < ranks; ++r) {
    StoredRank rank;
    rank.hello.set_source(1000 + r);
    rank.hello.set_rank(r);
    rank.hello.set_world_size(ranks);
    rank.hello.set_node("node \"" + std::to_string(r) + "\" \x1b[31m");
    rank.hello.set_pid(4000 + r);
    job.ranks.push_back(rank);
    for (uint64_t s = 1; s <= steps; ++s) {
      StoredStep stored;
      stored.rank = r;
      const v1::RankStep step = StepOf(1000 + r, s);
      stored.step = s;
      stored.start_unix_ns = step.start_unix_ns();
      step.SerializeToString(&stored.message);
      job.steps.push_back(stored);
    }
  }
  Finding finding;
  finding.id = "f1";
  finding.verdict.finding_class = "fail_slow";
  finding.verdict.cause = "compute_slow";
  finding.verdict.ranks = {Rank(1)};
  finding.verdict.summary = "Rank 1 <script>";
  finding.first_seen_unix_ns = 1'706'850'125'000'000'000;
  job.findings.push_back(finding);
  return job;
}

std::string Written(const JobMemory& job, Format format) {
  std::string bytes;
  const TraceSink sink = [&bytes](std::string_view more) {
    bytes.append(more);
    return true;
  };
  const auto writer = format == Format::kChrome ? NewChromeWriter(sink) : NewPerfettoWriter(sink);
  EXPECT_TRUE(WriteJobTrace(job, writer.get()));
  return bytes;
}

import::Fragment Imported(const std::string& bytes){
    const auto input = import::Input::FromMemory("trace", bytes);
const Result<const import::Importer*> importer = import::ChooseImporter(*input, "");
EXPECT_TRUE(importer.ok()) << importer.status().message();
Result<import::Fragment> fragment = import::ReadWith(**importer, input.get());
EXPECT_TRUE(fragment.ok()) << fragment.status().message();
return fragment.ok() ? *fragment : import::Fragment();
}  // namespace

class JobTraceTest : public testing::TestWithParam<Format> {};
INSTANTIATE_TEST_SUITE_P(Formats, JobTraceTest, testing::Values(Format::kChrome, Format::kPerfetto),
                         [](const auto& info) {
                           return info.param == Format::kChrome ? "Chrome" : "Perfetto";
                         });

TEST_P(JobTraceTest, ImportsAgainWithTheSameNumbers) {
  const JobMemory job = JobOf(3, 5);
  const import::Fragment fragment = Imported(Written(job, GetParam()));
  EXPECT_THAT(fragment.notes, IsEmpty());
  EXPECT_EQ(fragment.identity, "train-7");
  ASSERT_THAT(fragment.ranks, SizeIs(3));
  for (uint32_t r = 0; r < 3; ++r) {
    EXPECT_EQ(fragment.ranks[r].rank, Rank(r));
    EXPECT_EQ(fragment.ranks[r].world_size, 3u);
    EXPECT_EQ(fragment.ranks[r].record.pid, 4000 + r);
    ASSERT_THAT(fragment.ranks[r].record.steps, SizeIs(5));
    for (uint64_t s = 1; s <= 5; ++s) {
      v1::RankStep expected = StepOf(0, s);
      v1::RankStep got = StepToProto(fragment.ranks[r].record.steps[s - 1]);
      got.clear_source();
      EXPECT_EQ(got.SerializeAsString(), expected.SerializeAsString());
    }
  }
}

TEST_P(JobTraceTest, AJobWithoutRanksIsStillATrace) {
  EXPECT_THAT(Imported(Written(JobOf(0, 0), GetParam())).ranks, IsEmpty());
}

TEST_P(JobTraceTest, WhatComesBeforeACutIsUsed) {
  const std::string whole = Written(JobOf(2, 5), GetParam());
  const import::Fragment fragment = Imported(whole.substr(0, whole.size() * 3 / 4));
  EXPECT_THAT(fragment.ranks, SizeIs(2));
  EXPECT_FALSE(fragment.ranks[0].record.steps.empty());
  EXPECT_FALSE(fragment.notes.empty());
}

TEST_P(JobTraceTest, AFileThatCannotBeWrittenIsSaid) {
  const TraceSink full = [](std::string_view) { return false; };
  const auto writer =
      GetParam() == Format::kChrome ? NewChromeWriter(full) : NewPerfettoWriter(full);
  EXPECT_FALSE(WriteJobTrace(JobOf(2, 2), writer.get()));
}

TEST(PerfettoTraceTest, OneOfAnotherProgramIsRefusedInWords) {
  // A packet with a timestamp (field 8) and nothing else.
  const auto input = import::Input::FromMemory("other", std::string("\x0a\x02\x40\x01", 4));
  const Result<const import::Importer*> importer = import::ChooseImporter(*input, "");
  ASSERT_TRUE(importer.ok()) << importer.status().message();
  const Result<import::Fragment> fragment = import::ReadWith(**importer, input.get());
  ASSERT_FALSE(fragment.ok());
  EXPECT_THAT(fragment.status().message(), HasSubstr("of another program"));
}

}  // namespace flare::diag
}  // namespace flare::diag

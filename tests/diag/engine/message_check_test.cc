// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/message_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "diag/engine/checked_message.h"

namespace flare::diag {
namespace {

using testing::HasSubstr;

constexpr uint64_t kNow = 1'800'000'000'000'000'000;
constexpr uint64_t kTwoDaysNs = 172'800'000'000'000;

v1::RankHello GoodHello() {
  v1::RankHello hello;
  hello.set_source(1);
  hello.set_job("job");
  hello.set_world_size(4);
  hello.set_rank(3);
  hello.set_started_unix_ns(kNow);
  return hello;
}

TEST(MessageCheckTest, HelloThatCannotBeIsRejected) {
  const std::pair<const char*, std::function<void(v1::RankHello*)>> cases[] = {
      {"no source", [](auto* m) { m->set_source(0); }},
      {"no job", [](auto* m) { m->clear_job(); }},
      {"long job", [](auto* m) { m->set_job(std::string(kMaxJobBytes + 1, 'j')); }},
      {"no world", [](auto* m) { m->set_world_size(0); }},
      {"huge world", [](auto* m) { m->set_world_size(kMaxWorldSize + 1); }},
      {"rank outside", [](auto* m) { m->set_rank(4); }},
      {"negative pid", [](auto* m) { m->set_pid(-1); }},
      {"future", [](auto* m) { m->set_started_unix_ns(kNow + kTwoDaysNs); }},
      {"attempt", [](auto* m) { m->set_attempt(kMaxAttempt + 1); }},
      {"parts",
       [](auto* m) {
         for (int i = 0; i < 100; ++i) m->add_parts();
       }},
  };
  v1::RankHello good = GoodHello();
  EXPECT_TRUE(CheckRankHello(&good, kNow).ok());
  for (const auto& [name, spoil] : cases) {
    v1::RankHello bad = GoodHello();
    spoil(&bad);
    EXPECT_FALSE(CheckRankHello(&bad, kNow).ok()) << name;
  }
}

TEST(MessageCheckTest, NamesAreCutAndCleaned) {
  v1::RankHello hello = GoodHello();
  hello.set_job("a\nb");
  hello.set_node(std::string(1000, 'n'));
  hello.add_parts()->set_part("gl\x1b[31moo");
  ASSERT_TRUE(CheckRankHello(&hello, kNow).ok());
  EXPECT_EQ(hello.job(), "a b");
  EXPECT_EQ(hello.node().size(), kMaxNameBytes);
  EXPECT_EQ(hello.parts(0).part(), "gl [31moo");
}

TEST(MessageCheckTest, TextIsCutBetweenCharacters) {
  std::string text = "ab\xc3\xa4";  // a b ä
  CleanText(&text, 3);
  EXPECT_EQ(text, "ab");
}

TEST(MessageCheckTest, StepThatCannotBeIsRejected) {
  const std::pair<const char*, std::function<void(v1::RankStep*)>> cases[] = {
      {"negative step", [](auto* m) { m->set_step(UINT64_MAX); }},
      {"future", [](auto* m) { m->set_start_unix_ns(kNow + kTwoDaysNs); }},
      {"negative time", [](auto* m) { m->set_start_unix_ns(static_cast<uint64_t>(-5)); }},
      {"negative duration", [](auto* m) { m->set_duration_ns(static_cast<uint64_t>(-5)); }},
      {"phases",
       [](auto* m) {
         for (int i = 0; i < 2000; ++i) m->add_phases();
       }},
      {"durations", [](auto* m) { m->add_communicators()->mutable_duration_us()->Resize(129, 1); }},
      {"sequence", [](auto* m) { m->add_communicators()->set_first_sequence(UINT64_MAX); }},
  };
  for (const auto& [name, spoil] : cases) {
    v1::RankStep bad;
    spoil(&bad);
    EXPECT_FALSE(CheckStep(&bad, kNow).ok()) << name;
  }
  v1::RankStep good;
  good.set_start_unix_ns(kNow);
  EXPECT_TRUE(CheckStep(&good, kNow).ok());
  good.set_step(kFirstPseudoStep + kNow / 1'000'000);
  EXPECT_TRUE(CheckStep(&good, kNow).ok());
}

TEST(MessageCheckTest, StateThatCannotBeIsRejected) {
  const std::pair<const char*, std::function<void(v1::RankState*)>> cases[] = {
      {"no time", [](auto* m) { m->set_at_unix_ns(0); }},
      {"future", [](auto* m) { m->set_last_progress_unix_ns(kNow + kTwoDaysNs); }},
      {"calls",
       [](auto* m) {
         for (int i = 0; i < 3000; ++i) m->add_open_calls();
       }},
      {"call time", [](auto* m) { m->add_open_calls()->set_since_unix_ns(UINT64_MAX); }},
      {"group", [](auto* m) { m->add_communicators()->set_group_size(UINT32_MAX); }},
      {"recent",
       [](auto* m) {
         v1::CommunicatorState* c = m->add_communicators();
         for (int i = 0; i < 300; ++i) c->add_recent();
       }},
      {"frames",
       [](auto* m) {
         for (int i = 0; i < 300; ++i) m->mutable_process()->add_python_stack();
       }},
  };
  v1::RankState good;
  good.set_at_unix_ns(kNow);
  EXPECT_TRUE(CheckState(&good, kNow).ok());
  for (const auto& [name, spoil] : cases) {
    v1::RankState bad = good;
    spoil(&bad);
    EXPECT_FALSE(CheckState(&bad, kNow).ok()) << name;
  }
}

TEST(MessageCheckTest, DaemonNeedsAnIdAndTheProtocol) {
  v1::DaemonHello hello;
  hello.set_protocol(kProtocol);
  EXPECT_FALSE(CheckDaemonHello(&hello).ok());
  hello.set_daemon_id("d");
  EXPECT_TRUE(CheckDaemonHello(&hello).ok());
  hello.set_protocol(kProtocol + 1);
  EXPECT_THAT(CheckDaemonHello(&hello).message(), HasSubstr("protocol 2"));
}

TEST(CheckedMessageTest, OneBadItemCostsOnlyItself) {
  v1::Batch batch;
  batch.set_sequence(4);
  *batch.add_hellos() = GoodHello();
  batch.add_hellos();
  batch.add_steps()->set_step(5);
  batch.add_steps()->set_step(UINT64_MAX);
  const CheckedBatch checked = CheckBatch(std::move(batch), kNow);
  EXPECT_EQ(checked.sequence, 4u);
  EXPECT_EQ(checked.hellos.size(), 1u);
  ASSERT_EQ(checked.steps.size(), 1u);
  EXPECT_EQ(checked.steps[0].step.step, StepId(5));
  EXPECT_EQ(checked.rejected, 2u);
  EXPECT_EQ(checked.first_rejection, "source 0");
}

}  // namespace
}  // namespace flare::diag

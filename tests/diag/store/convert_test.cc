// SPDX-License-Identifier: Apache-2.0
#include "diag/store/convert.h"

#include <gtest/gtest.h>

namespace flare::diag {
namespace {

TEST(ConvertTest, UnknownEnumValuesBecomeUnknown) {
  v1::RankState state;
  state.mutable_process()->set_life(static_cast<v1::ProcessState_Life>(77));
  for (int value : {-5, 0, 13, 1000}) {
    v1::OpenCall* call = state.add_open_calls();
    call->set_kind(static_cast<v1::CallKind>(value));
    call->set_operation(static_cast<v1::Operation>(value == 13 ? 12 : value));
    call->set_data_type(static_cast<v1::DataType>(value == 13 ? 14 : value));
  }
  const RankState out = StateFromProto(state);
  EXPECT_EQ(out.process.life, Life::kUnknown);
  for (const OpenCall& call : out.open_calls) {
    EXPECT_EQ(call.kind, EventKind::kNone);
    EXPECT_EQ(call.operation, Operation::kUnknown);
    EXPECT_EQ(call.data_type, DataType::kUnknown);
  }
}

TEST(ConvertTest, StateKeepsItsFields) {
  v1::RankState state;
  state.set_at_unix_ns(5);
  state.set_steps(6);
  state.mutable_process()->set_life(v1::ProcessState::LIFE_RUNNING);
  state.mutable_process()->set_run_state("T");
  state.mutable_process()->set_main_thread_cpu_ns(9);
  state.mutable_process()->set_run_delay_ns(4);
  state.mutable_process()->add_python_stack()->set_function("f");
  v1::CommunicatorState* c = state.add_communicators();
  c->set_communicator(42);
  c->set_launched(8);
  c->add_recent()->set_bytes(3);
  const RankState out = StateFromProto(state);
  EXPECT_EQ(out.at_unix_ns, 5u);
  EXPECT_EQ(out.steps, 6u);
  EXPECT_EQ(out.process.life, Life::kRunning);
  EXPECT_EQ(out.process.run_state, 'T');
  EXPECT_EQ(out.process.main_thread_cpu_ns, 9u);
  EXPECT_EQ(out.process.run_delay_ns, 4u);
  EXPECT_EQ(out.process.python_stack.at(0).function, "f");
  EXPECT_EQ(out.communicators.at(0).communicator, CommId(42));
  EXPECT_EQ(out.communicators.at(0).recent.at(0).bytes, 3u);
}

TEST(ConvertTest, StepKeepsItsFields) {
  v1::RankStep step;
  step.set_step(3);
  step.set_duration_ns(10);
  v1::PhaseTime* phase = step.add_phases();
  phase->set_kind(v1::CALL_KIND_DATA_LOAD);
  phase->set_total_ns(4);
  v1::CommunicatorStep* c = step.add_communicators();
  c->set_first_sequence(7);
  c->add_duration_us(11);
  c->add_operations()->set_operation(v1::OPERATION_BARRIER);
  step.add_drops()->set_reason("ring_full");
  const RankStep out = StepFromProto(step);
  EXPECT_EQ(out.step, StepId(3));
  EXPECT_EQ(out.phases.at(0).kind, EventKind::kDataLoad);
  EXPECT_EQ(out.communicators.at(0).duration_us, std::vector<uint32_t>{11});
  EXPECT_EQ(out.communicators.at(0).operations.at(0).operation, Operation::kBarrier);
  EXPECT_EQ(out.drops.at(0).reason, "ring_full");
}

TEST(ConvertTest, StepWithDeviceComesBackFromItsMessage) {
  RankStep step;
  step.step = StepId(9);
  step.start_unix_ns = 5;
  step.duration_ns = 6;
  step.phases = {{EventKind::kDataLoad, "x", 1, 2, 3}};
  step.communicators.resize(1);
  step.communicators[0] = {
      CommId(4), 7, 2, {11, 12}, {{Operation::kAllReduce, DataType::kFloat32, 2, 8, 9}}, 99};
  step.drops = {{"full", 3}};
  DeviceStep& device = step.device.emplace();
  device.kernels = 12;
  device.inter_step_ns = 13;
  for (uint64_t v : {0u, 5u, 700u, 700u}) device.compute_issue_latency.Add(v);
  KernelTotals gemm{KernelClass::kGemm, 2, 30, {}};
  gemm.duration.Add(15, 2);
  device.classes = {gemm};
  device.gemms = {{2, 3, 4, 5, DataType::kBfloat16, 6, 7, 8}};
  device.devices = {"H100"};
  const v1::RankStep message = StepToProto(step);
  const RankStep back = StepFromProto(message);
  EXPECT_EQ(StepToProto(back).SerializeAsString(), message.SerializeAsString());
  ASSERT_TRUE(back.device);
  EXPECT_EQ(back.device->compute_issue_latency, device.compute_issue_latency);
  EXPECT_EQ(back.device->classes[0].duration.Quantile(0.5), gemm.duration.Quantile(0.5));
  EXPECT_EQ(back.device->gemms[0].data_type, DataType::kBfloat16);
  EXPECT_EQ(back.communicators[0].duration_us, step.communicators[0].duration_us);
  EXPECT_FALSE(StepFromProto(v1::RankStep()).device);
}

TEST(ConvertTest, BrokenDistributionsGiveWhatIsValid) {
  v1::QuantileSketch message;
  for (int32_t delta : {5, INT32_MAX, INT32_MAX, INT32_MIN}) message.add_index_delta(delta);
  message.add_count(1);
  EXPECT_EQ(SketchFromProto(message).count(), 1u);
  for (int i = 0; i < 5; ++i) message.add_count(UINT64_MAX);
  EXPECT_EQ(SketchFromProto(message).buckets().size(), 1u);
}

TEST(ConvertTest, FindingComesBackFromItsMessage) {
  Finding f;
  f.id = "a-1";
  f.job = "a";
  f.state = FindingState::kWithdrawn;
  f.verdict.finding_class = "hang";
  f.until_job_end = true;
  f.verdict.since_unix_ns = 5;
  f.verdict.ranks = {Rank(1)};
  f.verdict.victims = {Rank(2), Rank(3)};
  f.verdict.evidence = {{"text", "metric", 0.0, "s", std::nullopt}};
  const Finding back = FindingFromProto(FindingToProto(f));
  EXPECT_EQ(back.state, f.state);
  EXPECT_TRUE(back.until_job_end);
  EXPECT_EQ(back.verdict.since_unix_ns, 5u);
  EXPECT_EQ(back.verdict.ranks, f.verdict.ranks);
  EXPECT_EQ(back.verdict.victims, f.verdict.victims);
  // Zero is a value, none is none.
  EXPECT_EQ(back.verdict.evidence.at(0).value, std::optional<double>(0.0));
  EXPECT_EQ(back.verdict.evidence.at(0).expected, std::nullopt);
}

}  // namespace
}  // namespace flare::diag

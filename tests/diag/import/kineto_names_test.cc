// SPDX-License-Identifier: Apache-2.0
#include "diag/import/kineto_names.h"

#include <gtest/gtest.h>

namespace flare::import {
namespace {

TEST(KinetoNamesTest, RuntimeCallsOfBothVendors) {
  for (const char* name : {"cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel",
                           "hipLaunchKernel", "hipExtModuleLaunchKernel", "cudaMemcpyAsync",
                           "hipMemsetAsync", "cudaLaunchCooperativeKernel", "INVALID"}) {
    EXPECT_EQ(ClassifyRuntimeCall(name), RuntimeCall::kLaunch) << name;
  }
  for (const char* name : {"cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch"}) {
    EXPECT_EQ(ClassifyRuntimeCall(name), RuntimeCall::kGraphLaunch) << name;
  }
  for (const char* name : {"cudaDeviceSynchronize", "hipStreamSynchronize", "cuEventSynchronize"}) {
    EXPECT_EQ(ClassifyRuntimeCall(name), RuntimeCall::kSynchronize) << name;
  }
  for (const char* name : {"cudaEventQuery", "cudaStreamWaitEvent", "cudaLaunchHostFunc",
                           "cudaMallocAsync", "hipGetDevicePropertiesR0600", ""}) {
    EXPECT_EQ(ClassifyRuntimeCall(name), RuntimeCall::kOther) << name;
  }
  EXPECT_EQ(ClassifyRuntimeCall("cudaFree"), RuntimeCall::kMemory);
}

TEST(KinetoNamesTest, AnnotationsTellPhases) {
  EXPECT_EQ(PhaseOfAnnotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__").kind,
            EventKind::kDataLoad);
  EXPECT_EQ(PhaseOfAnnotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__").name,
            "_SingleProcessDataLoaderIter.__next__");
  EXPECT_EQ(PhaseOfAnnotation("Optimizer.step#AdamW.step").kind, EventKind::kOptimizer);
  EXPECT_EQ(PhaseOfAnnotation("## backward ##").kind, EventKind::kBackward);
  EXPECT_EQ(PhaseOfAnnotation("backward_hook").kind, EventKind::kUserCall);
  EXPECT_EQ(PhaseOfAnnotation("nccl:all_reduce").kind, EventKind::kNone);
  EXPECT_EQ(PhaseOfAnnotation("ProfilerStep#3").kind, EventKind::kNone);
  EXPECT_EQ(PhaseOfPythonFrame("torch/_tensor.py(522): backward").kind, EventKind::kBackward);
  EXPECT_EQ(PhaseOfPythonFrame("torch/serialization.py(903): save").kind, EventKind::kCheckpoint);
  EXPECT_EQ(PhaseOfPythonFrame("train.py(12): save").kind, EventKind::kNone);
}

TEST(KinetoNamesTest, StepMarks) {
  uint64_t step = 0;
  EXPECT_TRUE(ParseProfilerStep("ProfilerStep#552", &step));
  EXPECT_EQ(step, 552u);
  for (const char* name : {"ProfilerStep#", "ProfilerStep#x", "ProfilerStep#5x", "ProfilerStep*",
                           "ProfilerStep#99999999999999999999999"}) {
    EXPECT_FALSE(ParseProfilerStep(name, &step)) << name;
  }
}

TEST(KinetoNamesTest, OperationsByCallMarkAndKernel) {
  EXPECT_EQ(OperationNamed("_allgather_base"), Operation::kAllGather);
  EXPECT_EQ(OperationNamed("nccl:_reduce_scatter_base"), Operation::kReduceScatter);
  EXPECT_EQ(OperationNamed("all_to_allv"), Operation::kAllToAll);
  EXPECT_EQ(OperationNamed("gloo:all_reduce"), Operation::kAllReduce);
  EXPECT_EQ(OperationNamed("nccl:send 0->1"), Operation::kSend);
  EXPECT_EQ(OperationNamed("wait"), Operation::kUnknown);
  EXPECT_EQ(OperationOfKernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"),
            Operation::kAllReduce);
  EXPECT_EQ(OperationOfKernel("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(int)"),
            Operation::kReduceScatter);
  EXPECT_EQ(OperationOfKernel("ncclDevKernel_Reduce_Sum_f32_RING_LL(int)"), Operation::kReduce);
  EXPECT_EQ(OperationOfKernel("ncclAllReduceRingLLKernel_sum_f32(ncclColl)"),
            Operation::kAllReduce);
  EXPECT_EQ(OperationOfKernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(int)"),
            Operation::kUnknown);
  EXPECT_EQ(OperationOfKernel("ncclDevKernel_Generic_1(int)"), Operation::kUnknown);
  EXPECT_EQ(OperationOfKernel("elementwise"), Operation::kUnknown);
}

TEST(KinetoNamesTest, DataTypes) {
  EXPECT_EQ(DataTypeNamed("c10::BFloat16"), DataType::kBfloat16);
  EXPECT_EQ(DataTypeNamed("Float"), DataType::kFloat32);
  EXPECT_EQ(DataTypeNamed("long int"), DataType::kInt64);
  EXPECT_EQ(DataTypeNamed("Float8_e4m3fn"), DataType::kFloat8);
  EXPECT_EQ(DataTypeNamed("TensorList"), DataType::kUnknown);
  EXPECT_EQ(BytesOf(DataTypeNamed("c10::Half")), 2u);
}

}  // namespace
}  // namespace flare::import

// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/frame_meaning.h"

#include <gtest/gtest.h>

namespace flare::diag {
namespace {

using Stack = std::vector<StackFrame>;

TEST(FrameMeaningTest, InnermostTellingFrameDecides) {
  const Stack barrier_in_save = {{"wrapper", "torch/distributed/c10d_logger.py", 79},
                                 {"barrier", "torch/distributed/distributed_c10d.py", 3943},
                                 {"save", "torch/distributed/checkpoint/state_dict_saver.py", 10},
                                 {"<module>", "train.py", 9}};
  const StackMeaning meaning = MeaningOf(barrier_in_save);
  EXPECT_EQ(meaning.meaning, Meaning::kCollective);
  EXPECT_EQ(meaning.operation, "barrier");
  EXPECT_EQ(meaning.frame, 1u);
}

TEST(FrameMeaningTest, DeviceWaitInsideCommunicationIsCommunication) {
  const Stack stack = {{"synchronize", "/x/torch/cuda/__init__.py", 892},
                       {"_communicate", "/x/core/pipeline_parallel/p2p_communication.py", 399},
                       {"train", "/x/training.py", 1}};
  EXPECT_EQ(MeaningOf(stack).meaning, Meaning::kPointToPoint);
  EXPECT_EQ(MeaningOf({stack[0], stack[2]}).meaning, Meaning::kDeviceWait);
}

TEST(FrameMeaningTest, NativeCallTakesItsNameFromPython) {
  const Stack stack = {{"cudaStreamSynchronize", "libcudart.so.12", 0},
                       {"c10d::ProcessGroupNCCL::WorkNCCL::wait()", "libtorch_cuda.so", 0},
                       {"all_gather", "torch/distributed/distributed_c10d.py", 2000},
                       {"step", "train.py", 5}};
  EXPECT_EQ(MeaningOf(stack).operation, "all_gather");
  EXPECT_EQ(CallerOf(stack, MeaningOf(stack).frame)->function, "step");
}

TEST(FrameMeaningTest, WrapperOfElasticAroundTheProgramIsNoWait) {
  const Stack stack = {
      {"step", "train.py", 5},
      {"wrapper", "torch/distributed/elastic/multiprocessing/errors/__init__.py", 3},
      {"<module>", "train.py", 9}};
  EXPECT_EQ(MeaningOf(stack).meaning, Meaning::kNothing);
}

TEST(FrameMeaningTest, QualifiedNamesMeanTheSame) {
  EXPECT_EQ(MeaningOf({{"Stream.synchronize", "torch/cuda/streams.py", 1}}).meaning,
            Meaning::kDeviceWait);
  EXPECT_EQ(MeaningOf({{"DistributedDataParallel._sync_buffers",
                        "/x/torch/nn/parallel/distributed.py", 1}})
                .meaning,
            Meaning::kCollective);
}

TEST(FrameMeaningTest, LockCountsOnlyAsTheInnermostFrame) {
  EXPECT_EQ(MeaningOf({{"wait", "threading.py", 306}, {"f", "train.py", 1}}).meaning,
            Meaning::kLock);
  EXPECT_EQ(MeaningOf({{"f", "train.py", 1}, {"run", "threading.py", 870}}).meaning,
            Meaning::kNothing);
  EXPECT_EQ(MeaningOf({{"pthread_cond_timedwait", "libc.so.6", 0},
                       {"take_gil", "ceval_gil.h", 0},
                       {"_PyEval_EvalFrameDefault", "ceval.c", 0}})
                .meaning,
            Meaning::kLock);
}

TEST(FrameMeaningTest, NamesAloneMeanSomethingOnlyInAListOfNames) {
  EXPECT_EQ(MeaningOf({{"broadcast", "", 0}}).meaning, Meaning::kCollective);
  EXPECT_EQ(MeaningOf({{"wait", "", 0}}).meaning, Meaning::kNothing);
  EXPECT_EQ(MeaningOf({{"send", "", 0}, {"main", "", 0}}).meaning, Meaning::kNothing);
  EXPECT_EQ(MeaningOf({{"send", "client.py", 7}}).meaning, Meaning::kNothing);
}

TEST(FrameMeaningTest, ShortenedPathsOfLibrariesAreKnown) {
  for (const char* file : {"threading.py", "torch/serialization.py", "multiprocessing/queues.py",
                           "/usr/lib/python3.11/queue.py", "<frozen runpy>"}) {
    EXPECT_TRUE(IsLibraryFile(file)) << file;
  }
  for (const char* file : {"train.py", "megatron/training.py", "/app/train.py"}) {
    EXPECT_FALSE(IsLibraryFile(file)) << file;
  }
}

}  // namespace
}  // namespace flare::diag

// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/diag/import/read_text.h"

namespace flare::import {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kTimeout[] = R"(Timeout (0:05:00)!
Thread 0x00007f12d51f96c0 [watchdog] (most recent call first):
  File "/app/f.py", line 5 in worker
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Thread 0x00007f12d683ab80 (most recent call first):
  File "/site-packages/torch/distributed/distributed_c10d.py", line 1316 in all_reduce
  File "/app/f.py", line 7 in <module>
)";

TEST(FaulthandlerTest, MainThreadIsTheOneThatRunsTheProgram) {
  const Fragment fragment = MustRead(kTimeout, "faulthandler");
  ASSERT_EQ(fragment.ranks.size(), 1u);
  const diag::ProcessState& process = Process(fragment, 0);
  EXPECT_EQ(process.life, diag::Life::kRunning);
  ASSERT_EQ(process.threads.size(), 2u);
  EXPECT_EQ(process.threads[0].name, "watchdog");
  EXPECT_EQ(process.threads[0].id, 0x00007f12d51f96c0u);
  EXPECT_THAT(Frames(process.python_stack),
              ElementsAre("all_reduce (/site-packages/torch/distributed/distributed_c10d.py:1316)",
                          "<module> (/app/f.py:7)"));
}

TEST(FaulthandlerTest, OfRepeatedDumpsTheLastCounts) {
  std::string later = kTimeout;
  later.replace(later.find("line 7 in"), 9, "line 8 in");
  const Fragment fragment = MustRead(kTimeout + later, "faulthandler");
  ASSERT_EQ(fragment.ranks.size(), 1u);
  EXPECT_EQ(Process(fragment, 0).python_stack.at(1).line, 8u);
  EXPECT_THAT(fragment.notes, ElementsAre(HasSubstr("1 earlier dump of the same threads")));
}

TEST(FaulthandlerTest, DumpsOfOtherThreadsAreOtherProcesses) {
  std::string other = kTimeout;
  for (size_t at = other.find("7f12"); at != std::string::npos; at = other.find("7f12")) {
    other.replace(at, 4, "7f99");
  }
  EXPECT_EQ(MustRead(kTimeout + other, "faulthandler").ranks.size(), 2u);
}

TEST(FaulthandlerTest, FatalErrorIsACrash) {
  const Fragment fragment = MustRead(R"(epoch 3
Fatal Python error: Segmentation fault

Current thread 0x00007f12d683ab80 (most recent call first):
  File "/app/f.py", line 9 in <module>

Extension modules: numpy._core._multiarray_umath (total: 1)
)",
                                     "faulthandler");
  EXPECT_EQ(Process(fragment, 0).life, diag::Life::kDied);
  ASSERT_EQ(fragment.signals.size(), 1u);
  EXPECT_EQ(fragment.signals[0].kind, diag::SignalKind::kCrash);
  EXPECT_EQ(fragment.signals[0].text, "Fatal Python error: Segmentation fault");
}

TEST(FaulthandlerTest, PrefixesTellTheRank) {
  const Fragment fragment = MustRead(R"([rank2]:Timeout (0:05:00)!
[rank0]:Timeout (0:05:00)!
[rank2]:Thread 0x00007f12d683ab80 (most recent call first):
[rank0]:Thread 0x00007f12d683ab80 (most recent call first):
[rank2]:  File "/app/f.py", line 7 in <module>
[rank0]:  File "/app/f.py", line 9 in <module>
)",
                                     "faulthandler");
  ASSERT_EQ(fragment.ranks.size(), 2u);
  EXPECT_EQ(fragment.ranks[0].rank, Rank(2));
  EXPECT_EQ(Process(fragment, 0).python_stack.at(0).line, 7u);
  EXPECT_EQ(fragment.ranks[1].rank, Rank(0));
  EXPECT_EQ(Process(fragment, 1).python_stack.at(0).line, 9u);
}

TEST(FaulthandlerTest, ThreadsWithoutPythonFramesAreNoRank) {
  const Result<Fragment> fragment =
      ReadText("Thread 0x00007f12d683ab80 (most recent call first):\n  <no Python frame>\n");
  EXPECT_FALSE(fragment.ok());
  EXPECT_THAT(fragment.status().message(), HasSubstr("no stack of any process"));
}

}  // namespace
}  // namespace flare::import

// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/diag/import/read_text.h"
#include "tests/diag/import/recorded.h"

namespace flare::import {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kOneProcess[] = R"(Process 4624: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 4624 (idle): "MainThread"
    Condition.wait (threading.py:331)
    outer (t.py:7)
    <module> (t.py:9)
Thread 4666 (active+gil): "loader"
    Queue.get (queue.py:171)
    Thread._bootstrap (threading.py:1002)
)";

TEST(PySpyTest, ProcessHasItsThreadsAndItsMainStack) {
  const Fragment fragment = MustRead(kOneProcess, "py-spy");
  ASSERT_EQ(fragment.ranks.size(), 1u);
  EXPECT_EQ(fragment.ranks[0].record.pid, 4624);
  EXPECT_FALSE(fragment.ranks[0].rank.has_value());
  const diag::ProcessState& process = Process(fragment, 0);
  EXPECT_EQ(process.life, diag::Life::kRunning);
  EXPECT_THAT(Frames(process.python_stack), ElementsAre("Condition.wait (threading.py:331)",
                                                        "outer (t.py:7)", "<module> (t.py:9)"));
  ASSERT_EQ(process.threads.size(), 2u);
  EXPECT_EQ(process.threads[1].name, "loader");
  EXPECT_EQ(process.threads[1].state, "active+gil");
  EXPECT_EQ(process.threads[1].id, 4666u);
}

TEST(PySpyTest, ArgumentsAndLocalVariablesAreNoFrames) {
  const Fragment fragment = MustRead(R"(Process 7: python
Python v3.11.7 (/usr/bin/python3.11)

Thread 7 (idle): "MainThread"
    outer (t.py:7)
        Arguments:
            x: 5
        Locals:
            y: made up (fake.py:3)
    <module> (t.py:9)
)",
                                     "py-spy");
  EXPECT_THAT(Frames(Process(fragment, 0).python_stack),
              ElementsAre("outer (t.py:7)", "<module> (t.py:9)"));
}

TEST(PySpyTest, NativeFramesStayInTheThreadOnly) {
  const Fragment fragment = MustRead(R"(Process 7: python
Thread 7 (idle): "MainThread"
    0x7f24fa4a3f16 (libc.so.6)
    std::function<void ()>::operator()() const (libtorch_cpu.so)
    all_reduce (torch/distributed/distributed_c10d.py:1316)
    <module> (t.py:9)
)",
                                     "py-spy");
  EXPECT_THAT(
      Frames(Process(fragment, 0).threads[0].frames),
      ElementsAre("0x7f24fa4a3f16 (libc.so.6:0)",
                  "std::function<void ()>::operator()() const (libtorch_cpu.so:0)",
                  "all_reduce (torch/distributed/distributed_c10d.py:1316)", "<module> (t.py:9)"));
  EXPECT_EQ(Process(fragment, 0).python_stack.size(), 2u);
}

TEST(PySpyTest, MixedLinesOfManyHostsAreTakenApart) {
  const Fragment fragment = MustRead(R"(node7: Process 70: python train.py
node8: Process 80: python train.py
node7: Thread 70 (active): "MainThread"
node8: Thread 80 (idle): "MainThread"
node7:     all_reduce (torch/distributed/distributed_c10d.py:1316)
node8:     get (queue.py:171)
node7:     <module> (t.py:9)
)",
                                     "py-spy");
  ASSERT_EQ(fragment.ranks.size(), 2u);
  EXPECT_EQ(fragment.ranks[0].record.node, "node7");
  EXPECT_EQ(Process(fragment, 0).threads[0].frames.size(), 2u);
  EXPECT_EQ(fragment.ranks[1].record.node, "node8");
  EXPECT_THAT(Frames(Process(fragment, 1).python_stack), ElementsAre("get (queue.py:171)"));
}

TEST(PySpyTest, PrefixesOfLaunchersTellTheRank) {
  const Fragment fragment = MustRead(R"([1,3]<stdout>:Thread 70 (active): "MainThread"
[1,3]<stdout>:    step (t.py:9)
[rank5]:Thread 80 (active): "MainThread"
[rank5]:    step (t.py:9)
)",
                                     "py-spy");
  ASSERT_EQ(fragment.ranks.size(), 2u);
  EXPECT_EQ(fragment.ranks[0].rank, Rank(3));
  EXPECT_EQ(fragment.ranks[1].rank, Rank(5));
}

TEST(PySpyTest, BlocksUnderHeadingsBelongToTheirHost) {
  const Fragment fragment = MustRead(R"(----------------
node7
----------------
Thread 70 (active): "MainThread"
    step (t.py:9)
----------------
node8
----------------
Thread 70 (active): "MainThread"
    step (t.py:11)
)",
                                     "py-spy");
  ASSERT_EQ(fragment.ranks.size(), 2u);
  EXPECT_EQ(fragment.ranks[0].record.node, "node7");
  EXPECT_EQ(fragment.ranks[1].record.node, "node8");
}

TEST(PySpyTest, ColoursOfATerminalAreTakenAway) {
  const Fragment fragment = MustRead(
      "Process \x1b[1m\x1b[33m7\x1b[0m: python\n"
      "Thread \x1b[1m7\x1b[0m (idle): \"MainThread\"\n"
      "    \x1b[32mstep\x1b[0m (\x1b[36mt.py\x1b[0m:\x1b[2m9\x1b[0m)\n",
      "py-spy");
  EXPECT_EQ(fragment.ranks.at(0).record.pid, 7);
  EXPECT_THAT(Frames(Process(fragment, 0).python_stack), ElementsAre("step (t.py:9)"));
}

TEST(PySpyTest, JsonSaysTheSameAsText) {
  const Fragment fragment = MustRead(R"([
  {"pid": 4624, "thread_id": 139796787672768, "thread_name": "loader", "os_thread_id": 4666,
   "active": true, "owns_gil": false, "frames": [
     {"name": "get", "filename": "/usr/lib/python3.11/queue.py", "short_filename": "queue.py",
      "line": 171, "locals": null}], "process_info": null},
  {"pid": 4624, "thread_id": 139796794567552, "thread_name": "MainThread", "os_thread_id": 4624,
   "active": false, "owns_gil": false, "frames": [
     {"name": "step", "filename": "/app/t.py", "short_filename": "t.py", "line": 9,
      "locals": null}]}
])",
                                     "py-spy-json");
  ASSERT_EQ(fragment.ranks.size(), 1u);
  EXPECT_EQ(fragment.ranks[0].record.pid, 4624);
  EXPECT_THAT(Frames(Process(fragment, 0).python_stack), ElementsAre("step (/app/t.py:9)"));
  EXPECT_EQ(Process(fragment, 0).threads[0].state, "active");
}

TEST(PySpyTest, JsonOfManyProcessesMayLieInOneFile) {
  const auto dump = [](int pid) {
    return R"([{"pid": )" + std::to_string(pid) + R"(, "thread_id": 1, "thread_name": "MainThread",
      "os_thread_id": 0, "active": true, "owns_gil": true,
      "frames": [{"name": "step", "filename": "/app/t.py", "line": 9}]}])";
  };
  EXPECT_EQ(MustRead(dump(1) + "\n" + dump(2), "py-spy-json").ranks.size(), 2u);
  const Fragment cut = MustRead(dump(1) + "\n" + dump(2).substr(0, 90), "py-spy-json");
  EXPECT_EQ(cut.ranks.size(), 1u);
  EXPECT_THAT(cut.notes, ElementsAre(HasSubstr("only the part before this was used")));
}

TEST(PySpyTest, BloomReproductionShowsSixteenProcesses) {
  SKIP_WITHOUT_RECORDED_FILES();
  const Fragment fragment = MustReadFile(
      Recorded("bigscience-bloom/2022-04-30-eval-hang-2node-repro.pyspy.txt"), "py-spy");
  ASSERT_EQ(fragment.ranks.size(), 16u);
  size_t innermost[4] = {};
  const char* const names[] = {"broadcast", "all_reduce", "recv", "wait"};
  for (const RankFragment& rank : fragment.ranks) {
    for (size_t i = 0; i < 4; ++i) {
      innermost[i] += rank.record.state.process.python_stack.at(0).function == names[i] ? 1 : 0;
    }
  }
  EXPECT_THAT(innermost, ElementsAre(4u + 3u, 4u, 4u, 1u));
  EXPECT_EQ(fragment.ranks[4].record.pid, 688514);
}

TEST(PySpyTest, ListsOfInnermostFunctionsAreProcesses) {
  SKIP_WITHOUT_RECORDED_FILES();
  const Fragment fragment =
      MustReadFile(Recorded("bigscience-bloom/2022-05-18-eval-hang-384gpu.pyspy.txt"), "py-spy");
  size_t waits = 0;
  for (const RankFragment& rank : fragment.ranks) {
    const std::vector<diag::StackFrame>& frames = rank.record.state.process.threads[0].frames;
    waits += frames.size() == 1 && frames[0].function == "wait" ? 1 : 0;
  }
  EXPECT_EQ(waits, 1u);
  // 40 lines of lists, and the stack of the one that waits.
  EXPECT_EQ(fragment.ranks.size(), 41u);
  EXPECT_EQ(fragment.ranks[0].record.node, "trace-jean-zay-iam03");
  EXPECT_THAT(fragment.notes, ElementsAre(HasSubstr("counts twice")));
}

TEST(PySpyTest, TracebackInALogIsNoDump) {
  const Result<Fragment> fragment = ReadText(R"(Traceback (most recent call last):
  File "train.py", line 41, in <module>
    main()
RuntimeError: Thread 5 (active) failed
)");
  EXPECT_FALSE(fragment.ok());
}

}  // namespace
}  // namespace flare::import

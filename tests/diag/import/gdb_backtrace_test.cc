// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/diag/import/read_text.h"

namespace flare::import {
namespace {

using testing::ElementsAre;

constexpr char kTwoThreads[] = R"([New LWP 4666]
Thread 2 (Thread 0x7f24f9deb6c0 (LWP 4666) "pt_autograd_0"):
#0  0x00007f24fa4a3f7b in __futex_wait (word=0x1, op=393) at ./nptl/futex-internal.c:57
#1  0x00007f24fa8a9370 in torch::autograd::ReadyQueue::pop() () from /lib/libtorch_cpu.so

Thread 1 (Thread 0x7f24fac0eb80 (LWP 4624) "python3"):
#0  0x00007f24fa5278ec in c10d::ProcessGroupNCCL::WorkNCCL::wait(std::chrono::duration<long, std::ratio<1l, 1000l> >) () from /lib/libtorch_cuda.so
#1  <signal handler called>
#2  main (argc=2, argv=0x7ffd) at ./Programs/python.c:15
)";

TEST(GdbBacktraceTest, ThreadOneIsTheMainThreadAndNamesTheProcess) {
  const Fragment fragment = MustRead(kTwoThreads, "gdb");
  ASSERT_EQ(fragment.ranks.size(), 1u);
  EXPECT_EQ(fragment.ranks[0].record.pid, 4624);
  const diag::ProcessState& process = Process(fragment, 0);
  ASSERT_EQ(process.threads.size(), 2u);
  EXPECT_EQ(process.threads[0].name, "pt_autograd_0");
  EXPECT_EQ(process.threads[0].id, 4666u);
  EXPECT_EQ(process.threads[1].id, 4624u);
  EXPECT_EQ(process.threads[1].name, "MainThread");
}

TEST(GdbBacktraceTest, FunctionsLoseArgumentsAndKeepTheirTypes) {
  const Fragment fragment = MustRead(kTwoThreads, "gdb");
  const diag::ProcessState& process = Process(fragment, 0);
  EXPECT_THAT(Frames(process.threads[0].frames),
              ElementsAre("__futex_wait (./nptl/futex-internal.c:57)",
                          "torch::autograd::ReadyQueue::pop() (/lib/libtorch_cpu.so:0)"));
  EXPECT_THAT(Frames(process.threads[1].frames),
              ElementsAre("c10d::ProcessGroupNCCL::WorkNCCL::wait(std::chrono::duration<long, "
                          "std::ratio<1l, 1000l> >) (/lib/libtorch_cuda.so:0)",
                          "<signal handler called> (:0)", "main (./Programs/python.c:15)"));
}

TEST(GdbBacktraceTest, PythonFramesAreFoundInTheArguments) {
  const Fragment fragment = MustRead(R"gdb(#0  0x00007f24 in poll () from /lib/libc.so.6
#1  _PyEval_EvalFrameDefault (tstate=0x1, f=Frame 0x7f2, for file /usr/lib/python3.8/threading.py, line 306, in wait (self=<...>), throwflag=0) at Python/ceval.c:741
#2  0x00007f24fa6f in _PyEval_EvalFrameDefault (tstate=0x1, f=Frame 0x7f3, for file /app/train.py,
    line 41, in train_step (loss=")"), throwflag=0) at Python/ceval.c:741
)gdb",
                                     "gdb");
  EXPECT_THAT(
      Frames(Process(fragment, 0).python_stack),
      ElementsAre("wait (/usr/lib/python3.8/threading.py:306)", "train_step (/app/train.py:41)"));
}

TEST(GdbBacktraceTest, PythonListAfterTheBacktraceIsRead) {
  const Fragment fragment = MustRead(R"(#0  0x00007f24 in poll () from /lib/libc.so.6
Traceback (most recent call first):
  File "/usr/lib/python3.8/queue.py", line 179, in get
    self.not_empty.wait(remaining)
  File "/app/train.py", line 41, in <module>
    main()
)",
                                     "gdb");
  EXPECT_THAT(Frames(Process(fragment, 0).python_stack),
              ElementsAre("get (/usr/lib/python3.8/queue.py:179)", "<module> (/app/train.py:41)"));
}

TEST(GdbBacktraceTest, ManyProcessesMayFollowEachOther) {
  const Fragment threads = MustRead(std::string(kTwoThreads) + kTwoThreads, "gdb");
  ASSERT_EQ(threads.ranks.size(), 2u);
  EXPECT_EQ(Process(threads, 1).threads.size(), 2u);
  const Fragment plain = MustRead(
      "#0  poll () from /lib/libc.so.6\n#1  main () at a.c:1\n"
      "#0  read () from /lib/libc.so.6\n#1  main () at a.c:1\n",
      "gdb");
  EXPECT_EQ(plain.ranks.size(), 2u);
}

TEST(GdbBacktraceTest, StackOfACppExceptionIsNoBacktrace) {
  EXPECT_FALSE(ReadText("what():  CUDA error\n"
                        "frame #0: c10::Error::Error(c10::SourceLocation) + 0x42 (0x15 in /x.so)\n"
                        "    #0 0x55 in main a.cc:3\n")
                   .ok());
}

}  // namespace
}  // namespace flare::import

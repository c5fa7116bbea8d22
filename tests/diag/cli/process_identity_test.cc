// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/process_identity.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace flare::cli {
namespace {

pid_t StartSleeper() {
  const pid_t pid = fork();
  if (pid == 0) {
    for (;;) pause();
  }
  return pid;
}

TEST(ProcessIdentityTest, SignalsTheProcessItMeant) {
  const pid_t pid = StartSleeper();
  const auto process = IdentifyProcess(pid);
  ASSERT_TRUE(process);
  EXPECT_TRUE(SignalExactly(*process, SIGTERM));
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  EXPECT_FALSE(StillRuns(*process));
  EXPECT_FALSE(SignalExactly(*process, SIGTERM));
}

TEST(ProcessIdentityTest, NeverSignalsALaterOwnerOfThePid) {
  const pid_t pid = StartSleeper();
  auto process = IdentifyProcess(pid);
  ASSERT_TRUE(process);
  process->start_clock_ticks -= 1;
  EXPECT_FALSE(SignalExactly(*process, SIGKILL));
  EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), 0);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

TEST(ProcessIdentityTest, ZombieIsGone) {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, pid, &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(IdentifyProcess(pid));
  waitpid(pid, nullptr, 0);
}

}  // namespace
}  // namespace flare::cli

// SPDX-License-Identifier: Apache-2.0
// Children by the raw system call, past every wrapper of the C library.
#define _GNU_SOURCE
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "step.h"

int main(void) {
  for (int i = 0; i < 20; ++i) {
    MarkStep();
    struct clone_args args;
    memset(&args, 0, sizeof(args));
    args.exit_signal = SIGCHLD;
    long child = syscall(SYS_clone3, &args, sizeof(args));
    if (child == 0) {
      for (int step = 0; step < 100; ++step) MarkStep();
      static const char text[] = "child\n";
      ssize_t wrote = write(1, text, sizeof(text) - 1);
      syscall(SYS_exit_group, wrote > 0 ? 4 : 5);
    }
    int status = 0;
    waitpid((pid_t)child, &status, 0);
    printf("%d %d\n", i, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    fflush(stdout);
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Children by vfork: one becomes another program, one leaves at once. The parent's memory is
// theirs.
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "step.h"

int main(void) {
  for (volatile int i = 0; i < 20; ++i) {
    MarkStep();
    int status = 0;
    pid_t child = vfork();
    if (child == 0) {
      if (i % 2 == 0) execl("/bin/echo", "echo", "child", (char*)NULL);
      _exit(3);
    }
    waitpid(child, &status, 0);
    printf("%d %d\n", i, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    fflush(stdout);
    MarkStep();
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// After this only read, write, exit and sigreturn are allowed; anything else is SIGKILL.
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "step.h"

int main(void) {
  MarkStep();
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) return 2;
  static const char text[] = "confined\n";
  if (write(1, text, sizeof(text) - 1) < 0) return 3;
  syscall(SYS_exit, 5);
}

// SPDX-License-Identifier: Apache-2.0
// Overflows its stack, handles that on the smallest alternate stack, and calls into us from there.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "step.h"

static sigjmp_buf back;

static void OnFault(int signal_number) {
  (void)signal_number;
  MarkStep();
  siglongjmp(back, 1);
}

__attribute__((noinline)) static int Deep(volatile int n) {
  volatile char room[4096];
  room[0] = (char)n;
  return n < 0 ? 0 : Deep(n + 1) + room[0];
}

int main(void) {
  MarkStep();
  stack_t stack = {.ss_size = (size_t)MINSIGSTKSZ};
  long least = sysconf(_SC_MINSIGSTKSZ);
  if (least > (long)stack.ss_size) stack.ss_size = (size_t)least;
  stack.ss_sp = malloc(stack.ss_size);
  sigaltstack(&stack, NULL);
  struct sigaction action = {.sa_handler = OnFault, .sa_flags = SA_ONSTACK};
  sigaction(SIGSEGV, &action, NULL);
  for (volatile int round = 0; round < 3; ++round) {
    if (sigsetjmp(back, 1) == 0) {
      printf("%d\n", Deep(0));
    } else {
      printf("caught\n");
    }
    MarkStep();
  }
  return 0;
}

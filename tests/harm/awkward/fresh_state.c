// SPDX-License-Identifier: Apache-2.0
// What a program may look at before it has done anything: no error of anybody else's is there.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "step.h"

int main(void) {
  int first_errno = errno;
  const char* first_error = dlerror();
  printf("errno %d, dlerror %s\n", first_errno, first_error == NULL ? "none" : first_error);
  errno = 33;
  for (int i = 0; i < 10000; ++i) MarkStep();
  printf("errno %d, dlerror %s\n", errno, dlerror() == NULL ? "none" : "set");
  char name[16] = "";
  prctl(PR_GET_NAME, name);
  sigset_t blocked;
  sigemptyset(&blocked);
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  int count = 0;
  for (int i = 1; i < 32; ++i) count += sigismember(&blocked, i);
  printf("name %s, %d signals blocked, dumpable %d\n", name, count, prctl(PR_GET_DUMPABLE));
  return 0;
}

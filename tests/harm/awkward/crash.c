// SPDX-License-Identifier: Apache-2.0
// crash HOW: ends by the named fault, which its parent must see unchanged.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "step.h"

static void* Fault(void* unused) {
  MarkStep();
  *(volatile int*)8 = 1;
  return unused;
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  printf("before\n");
  fflush(stdout);
  MarkStep();
  if (strcmp(how, "segv") == 0) Fault(NULL);
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "term") == 0) raise(SIGTERM);
  if (strcmp(how, "sent_bus") == 0) kill(getpid(), SIGBUS);
  if (strcmp(how, "exit") == 0) exit(33);
  if (strcmp(how, "quick") == 0) quick_exit(34);
  if (strcmp(how, "raw") == 0) syscall(SYS_exit_group, 35);
  if (strcmp(how, "thread") == 0) {
    pthread_t thread;
    pthread_create(&thread, NULL, Fault, NULL);
    pthread_join(thread, NULL);
  }
  if (strcmp(how, "bus") == 0) {  // beyond the end of a file, as a truncated map
    FILE* file = tmpfile();
    volatile char* map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
    return map[0];
  }
  return 0;
}

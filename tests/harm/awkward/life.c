// SPDX-License-Identifier: Apache-2.0
// life [exec]: a whole life of a process: steps, a thread, children, and an end by exit or exec.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "step.h"

static void* Work(void* unused) {
  for (int i = 0; i < 10; ++i) MarkStep();
  return unused;
}

int main(int argc, char** argv) {
  for (int i = 0; i < 10; ++i) MarkStep();
  pthread_t thread;
  pthread_create(&thread, NULL, Work, NULL);
  pthread_join(thread, NULL);
  printf("working\n");
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    MarkStep();
    _exit(3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  fflush(stdout);
  MarkStep();
  if (argc > 1 && strcmp(argv[1], "exec") == 0) execl("/bin/echo", "echo", "replaced", (char*)NULL);
  return 6;
}

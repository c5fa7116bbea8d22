// SPDX-License-Identifier: Apache-2.0
// Eight threads fork while the others call into us: the child has one thread and everybody's locks.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "step.h"

static void* Fork(void* unused) {
  (void)unused;
  long good = 0;
  for (int i = 0; i < 25; ++i) {
    MarkStep();
    pid_t child = fork();
    if (child == 0) {
      MarkStep();
      free(malloc(100));
      _exit(9);
    }
    int status = 0;
    waitpid(child, &status, 0);
    good += WIFEXITED(status) && WEXITSTATUS(status) == 9;
  }
  return (void*)good;
}

int main(void) {
  pthread_t threads[8];
  long good = 0;
  for (int i = 0; i < 8; ++i) pthread_create(&threads[i], NULL, Fork, NULL);
  for (int i = 0; i < 8; ++i) {
    void* result;
    pthread_join(threads[i], &result);
    good += (long)result;
  }
  printf("%ld children\n", good);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// More threads at a time than anybody has slots for, then as many again.
#include <pthread.h>
#include <stdio.h>

#include "step.h"

enum { kThreads = 1000 };
static pthread_barrier_t barrier;

static void* Work(void* unused) {
  (void)unused;
  for (int i = 0; i < 10; ++i) MarkStep();
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < 10; ++i) MarkStep();
  return NULL;
}

int main(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 * 1024);
  static pthread_t threads[kThreads];
  for (int round = 0; round < 2; ++round) {
    pthread_barrier_init(&barrier, NULL, kThreads);
    int started = 0;
    for (; started < kThreads; ++started) {
      if (pthread_create(&threads[started], &attributes, Work, NULL) != 0) return 2;
    }
    for (int i = 0; i < started; ++i) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    printf("%d threads\n", started);
  }
  return 0;
}

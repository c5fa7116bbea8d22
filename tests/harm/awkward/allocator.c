// SPDX-License-Identifier: Apache-2.0
// Works the heap from several threads and shows the time to the day.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "step.h"

static void* Work(void* unused) {
  char* kept[64] = {0};
  for (int i = 0; i < 20000; ++i) {
    char** place = &kept[i % 64];
    free(*place);
    *place = malloc((size_t)(i * 37 % 5000) + 1);
    if (*place == NULL) abort();
    memset(*place, i, 1);
    if (i % 100 == 0) MarkStep();
  }
  for (int i = 0; i < 64; ++i) free(kept[i]);
  return unused;
}

int main(void) {
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, Work, NULL);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  time_t now = time(NULL);
  struct tm parts;
  char text[32];
  strftime(text, sizeof(text), "%Y-%m-%d", gmtime_r(&now, &parts));
  printf("%s\n", text);
  return 0;
}

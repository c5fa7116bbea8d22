// SPDX-License-Identifier: Apache-2.0
// A little of everything: output on both streams, the heap, a file, a step, a status of its own.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "step.h"

int main(int argc, char** argv) {
  printf("arguments %d, user %s\n", argc, getuid() == geteuid() ? "plain" : "raised");
  (void)argv;
  for (int i = 0; i < 1000; ++i) MarkStep();
  char* block = malloc(1 << 20);
  if (block == NULL) {
    printf("no memory\n");
  } else {
    memset(block, 1, 1 << 20);
    free(block);
  }
  FILE* file = fopen("/dev/null", "r");
  if (file == NULL) {
    printf("no file\n");
  } else {
    printf("descriptor %d\n", fileno(file));
    fclose(file);
  }
  fprintf(stderr, "to the error stream\n");
  return 7;
}

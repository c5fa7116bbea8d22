// SPDX-License-Identifier: Apache-2.0
// stepper [bus]: does as many steps as each line of its input says and answers. With "bus" it has a
// SIGBUS handler of its own, which says so and leaves with status 77.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "step.h"

static void OnBus(int signal_number) {
  (void)signal_number;
  _exit(77);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "bus") == 0) signal(SIGBUS, OnBus);
  char line[32];
  printf("ready\n");
  fflush(stdout);
  while (fgets(line, sizeof(line), stdin) != NULL) {
    long steps = strtol(line, NULL, 10);
    for (long i = 0; i < steps; ++i) MarkStep();
    printf("did %ld\n", steps);
    fflush(stdout);
  }
  return 5;
}

// SPDX-License-Identifier: Apache-2.0
// Started with descriptors 0 to 2 closed: the first files it opens get those numbers, and it writes
// what it saw to the file named by its argument.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "step.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  int out = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
  int second = open("/dev/null", O_RDONLY);
  MarkStep();
  int third = open("/dev/null", O_RDONLY);
  char text[64];
  snprintf(text, sizeof(text), "%d %d %d\n", out, second, third);
  ssize_t wrote = write(out, text, strlen(text));
  return wrote > 0 ? 0 : 3;
}

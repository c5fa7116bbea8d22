// SPDX-License-Identifier: Apache-2.0
// limited NAME BYTES: lowers one limit, starts itself again under it, and works.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "step.h"

static int Resource(const char* name) {
  if (strcmp(name, "as") == 0) return RLIMIT_AS;
  if (strcmp(name, "nofile") == 0) return RLIMIT_NOFILE;
  if (strcmp(name, "stack") == 0) return RLIMIT_STACK;
  if (strcmp(name, "fsize") == 0) return RLIMIT_FSIZE;
  return RLIMIT_MEMLOCK;
}

static void Work(void) {
  for (int i = 0; i < 1000; ++i) MarkStep();
  char* block = malloc(2 << 20);
  printf("heap %s\n", block != NULL ? "yes" : "no");
  if (block != NULL) memset(block, 1, 2 << 20);
  int files = 0;
  while (files < 40 && open("/dev/null", O_RDONLY) >= 0) ++files;
  printf("files %d\n", files);
  printf("lock %d\n", mlock(block, 16384));
  printf("lock later %d\n", mlockall(MCL_FUTURE));
  volatile char stack[16384];
  memset((void*)stack, 1, sizeof(stack));
  MarkStep();
  free(block);
}

int main(int argc, char** argv) {
  if (argc == 2) {
    Work();
    return 6;
  }
  struct rlimit limit;
  limit.rlim_cur = limit.rlim_max = strtoul(argv[2], NULL, 10);
  if (setrlimit(Resource(argv[1]), &limit) != 0) return 2;
  execl(argv[0], argv[0], argv[1], (char*)NULL);
  return 3;
}

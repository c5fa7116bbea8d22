// SPDX-License-Identifier: Apache-2.0
// Throws its environment away, in all the ways there are, and then lives on and starts others.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "step.h"

extern char** environ;

static void Start(char** argv, char** environment) {
  fflush(stdout);
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    execve(argv[0], argv, environment);
    _exit(1);
  }
  waitpid(child, &status, 0);
  printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

int main(int argc, char** argv) {
  if (argc > 1) {
    MarkStep();
    printf("empty %d\n", environ == NULL || environ[0] == NULL || strchr(environ[0], '=') != NULL);
    return 8;
  }
  char* again[] = {argv[0], "again", NULL};
  char* none[] = {NULL};
  char* odd[] = {"=", "RANK", "RANK=", "WORLD_SIZE=x", NULL};
  Start(again, none);
  Start(again, NULL);
  Start(again, odd);
  clearenv();
  MarkStep();
  Start(again, none);
  environ = NULL;
  MarkStep();
  Start(again, none);
  // Overwrites where the names of variables and the command line were, as servers do for ps.
  memset(argv[0], 'x', strlen(argv[0]));
  MarkStep();
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Starts itself with no arguments at all, and with an empty name.
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "step.h"

extern char** environ;

int main(int argc, char** argv) {
  if (argc == 0 || argv[0][0] == '\0') {
    MarkStep();
    printf("arguments %d\n", argc);
    return 4;
  }
  char* none[] = {NULL};
  char* empty[] = {"", NULL};
  char** ways[] = {none, empty};
  for (int i = 0; i < 2; ++i) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
      execve(argv[0], ways[i], environ);
      _exit(1);
    }
    waitpid(child, &status, 0);
    printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    fflush(stdout);
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// unloaded LIBRARY: loads and unloads it again and again, with a thread and a child alive
// meanwhile.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_barrier_t loaded, gone;

static void* Wait(void* symbol) {
  void (*step)(void) = symbol;
  if (step != NULL) step();
  pthread_barrier_wait(&loaded);
  pthread_barrier_wait(&gone);
  return NULL;  // thread-local destructors of the library must not be run from unmapped code
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  for (int i = 0; i < 5; ++i) {
    void* library = dlopen(argv[1], RTLD_NOW | (i % 2 ? RTLD_GLOBAL : RTLD_LOCAL));
    if (library == NULL) return 3;
    pthread_barrier_init(&loaded, NULL, 2);
    pthread_barrier_init(&gone, NULL, 2);
    pthread_t thread;
    pthread_create(&thread, NULL, Wait, dlsym(library, "flare_step"));
    pthread_barrier_wait(&loaded);
    printf("unload %d\n", dlclose(library));
    pthread_barrier_wait(&gone);
    pthread_join(thread, NULL);
    fflush(stdout);
    int status = 0;
    pid_t child = fork();
    if (child == 0) _exit(5);
    waitpid(child, &status, 0);
    printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  return 0;
}

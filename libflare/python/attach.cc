// SPDX-License-Identifier: Apache-2.0
#include "libflare/python/attach.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "libflare/process_facts.h"
#include "libflare/python/api_list.h"
#include "libflare/python/python_api.h"
#include "libflare/python/targets.h"
#include "libflare/python/uncaught_exception.h"
#include "libflare/python/wrapper.h"
#include "libflare/recorder.h"
#include "libflare/recorder_state.h"

// Weak instead of dlsym: a look-up that fails allocates and leaves a dlerror() behind.
extern "C" __attribute__((weak)) int PySys_AddAuditHook(int (*hook)(const char*,
                                                                    flare::python::Object*, void*),
                                                        void* data);
extern "C" __attribute__((weak)) int Py_IsInitialized();

namespace flare::python {

namespace {

//   kWaiting --import of torch, or woken already--> kAttaching
//      |  \--no rank--> kDormant --a communicator is made--> kAttaching
//      \--helper process, forked child, unknown Python, interpreter ends--> kOff (from any state)
enum class State { kWaiting, kDormant, kAttaching, kOff };

constinit std::atomic<State> g_phase{State::kWaiting};
constinit std::atomic<bool> g_has_api{false};
constinit std::atomic<bool> g_unsupported{false};
ThreadState* g_main_thread_state = nullptr;
int g_pid = 0;
int (*g_is_initialized)() = nullptr;

// How the programs that Python starts on its own account begin: they inherit a rank's environment
// and import torch, and are no rank.
constexpr const char* kHelperPrograms[] = {
    "from multiprocessing.",            // -c: spawned worker, fork server, resource tracker
    "popen_loky",                       // -m: joblib's workers
    "/torch/_inductor/compile_worker",  // file: compiles kernels
};

// With the GIL. False as long as the interpreter is not up.
bool HaveApi() {
  if (g_has_api.load(std::memory_order_acquire)) return true;
  if (g_is_initialized == nullptr || g_is_initialized() == 0) return false;
  if (!LoadApi()) {
    g_unsupported.store(true);
    SetPartState(Part::kPython, PartState::kUnsupported);
    g_phase.store(State::kOff);
    return false;
  }
  g_has_api.store(true, std::memory_order_release);
  return true;
}

// Starts to attach if this process is to be traced.
void Wake() {
  ErrnoKeeper keep;
  if (g_phase.load() == State::kOff || g_phase.load() == State::kAttaching) return;
  if (CurrentPid() != g_pid) {  // forked: a worker of the rank, not the rank
    g_phase.store(State::kOff);
    return;
  }
  if (!HaveApi() || CurrentThreadState() == nullptr) return;
  if (!EnsureAwake()) {
    g_phase.store(State::kDormant);
    return;
  }
  if (!InMainInterpreter()) {
    SetPartState(Part::kPython, PartState::kUnsupported);
    g_phase.store(State::kOff);
    return;
  }
  if (g_main_thread_state == nullptr && CurrentTid() == g_pid)
    g_main_thread_state = CurrentThreadState();
  SetPython(g_py.version_hex, g_py.runtime_address,
            reinterpret_cast<uint64_t>(g_main_thread_state));
  ErrorStash stash;
  if (!MakeWrapperTypes()) {
    SetPartState(Part::kPython, PartState::kFailed);
    g_phase.store(State::kOff);
    return;
  }
  SetPartState(Part::kPython, PartState::kActive);
  g_phase.store(State::kAttaching);
  AttachTargets();
}

bool IsHelperProgram(Object* arguments) {
  if (g_py.PyTuple_Size(arguments) < 1) return false;
  const char* program = Text(g_py.PyTuple_GetItem(arguments, 0));
  if (program == nullptr) return false;
  for (const char* helper : kHelperPrograms) {
    if (strstr(program, helper) != nullptr) return true;
  }
  return false;
}

// The interpreter is up and about to run the program, on the main thread.
void OnProgramStart(Object* arguments) {
  if (g_phase.load() != State::kWaiting || g_main_thread_state != nullptr || !HaveApi()) return;
  if (IsHelperProgram(arguments)) {
    g_phase.store(State::kOff);
    return;
  }
  g_main_thread_state = CurrentThreadState();
  if (IsRecording()) Wake();
}

void OnImport(Object* arguments) {
  const State state = g_phase.load(std::memory_order_relaxed);
  if (state != State::kWaiting && state != State::kAttaching) return;
  if (!HaveApi() || g_py.PyTuple_Size(arguments) < 1) return;
  const char* module = Text(g_py.PyTuple_GetItem(arguments, 0));
  if (module == nullptr) return;
  if (state == State::kAttaching) {
    NoteImport(module);
    AttachTargets();
  } else if (strncmp(module, "torch", 5) == 0 && (module[5] == '\0' || module[5] == '.')) {
    // By its parts too: importlib.import_module("torch") raises no event of its own.
    Wake();
    if (g_phase.load() == State::kAttaching) NoteImport("torch");
  }
}

int OnAuditEvent(const char* event, Object* arguments, void*) {
  switch (event[0]) {
    case 'e':
      // The body of a module is about to run, however its import was asked for.
      if (strcmp(event, "exec") == 0 &&
          g_phase.load(std::memory_order_relaxed) == State::kAttaching) {
        AttachTargets();
        return 0;
      }
      break;
    case 'i':
      if (strcmp(event, "import") == 0) {
        OnImport(arguments);
        return 0;
      }
      break;
    case 'c':
      if (strncmp(event, "cpython.run_", 12) == 0) {
        OnProgramStart(arguments);
      } else if (strcmp(event, "cpython._PySys_ClearAuditHooks") == 0) {
        g_phase.store(State::kOff);  // the interpreter ends
      }
      break;
    case 's':
      if (strcmp(event, "sys.excepthook") == 0 && g_has_api.load()) {
        RecordUncaughtException(arguments);
      }
      break;
    default:
      break;
  }
  if (__builtin_expect(ExpectsModules(), 0) &&
      g_phase.load(std::memory_order_relaxed) == State::kAttaching) {
    AttachTargets();
  }
  return 0;
}

// On the main thread, with the GIL, between two instructions of the program.
int OnPendingCall(void*) {
  if (g_phase.load() == State::kAttaching) {
    AttachTargets();
  } else {
    Wake();
  }
  return 0;
}

// From a hook on any thread, without the GIL.
void OnFrameworkSign() {
  // Said when Python came up too, but the process may have been asleep then.
  if (g_unsupported.load()) SetPartState(Part::kPython, PartState::kUnsupported);
  if (!g_has_api.load(std::memory_order_acquire)) return;
  if (g_phase.load() != State::kOff) g_py.Py_AddPendingCall(OnPendingCall, nullptr);
}

bool IsSet(const char* name) {
  const char* value = getenv(name);
  return value != nullptr && value[0] != '\0';
}

// An audit hook added before the interpreter is configured is allocated by malloc and freed, at
// exit, by the allocator that PYTHONMALLOC or development mode put in: that ends the process.
bool ChangesRawAllocator() {
  if (IsSet("PYTHONMALLOC") || IsSet("PYTHONDEVMODE")) return true;
  char text[4096];
  const long bytes = ReadSmallFile("/proc/self/cmdline", text, sizeof(text));
  bool after_x = false;
  for (long at = 0; at < bytes; at += static_cast<long>(strlen(text + at)) + 1) {
    const char* word = text + at;
    const char* x = word[0] == '-' && word[1] != '-' ? strchr(word, 'X') : nullptr;
    if (strcmp(after_x ? word : x != nullptr ? x + 1 : "", "dev") == 0) return true;
    after_x = x != nullptr && x[1] == '\0';
  }
  return false;
}

}  // namespace

void StartPython() {
  if (PySys_AddAuditHook == nullptr || Py_IsInitialized == nullptr) return;
  if (ChangesRawAllocator()) {
    g_unsupported.store(true);
    return;
  }
  g_is_initialized = Py_IsInitialized;
  g_pid = CurrentPid();
  ReadUserTargets(getenv("FLARE_PYTHON_API"));
  SetFrameworkListener(OnFrameworkSign);
  if (PySys_AddAuditHook(OnAuditEvent, nullptr) != 0) g_phase.store(State::kOff);
}

}  // namespace flare::python

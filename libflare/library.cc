// SPDX-License-Identifier: Apache-2.0
#include <sys/syscall.h>
#include <unistd.h>

#include "libflare/flare.h"
#include "libflare/hooks/process_hooks.h"
#include "libflare/recorder.h"
#include "libflare/recorder_state.h"
#include "libflare/version.h"
#ifdef FLARE_WITH_PYTHON
#include "libflare/python/attach.h"
#endif

// Load: every process that inherits LD_PRELOAD passes here, most of them no rank. Those pay a scan
// of the environment and a few symbol look-ups. There is no unload: the library stays (-z
// nodelete), and no object of it has a destructor, so that threads still running at exit find it
// whole.
namespace flare {
namespace {

__attribute__((constructor)) void Load() {
  ErrnoKeeper keep;
  FindProcessFunctions();
  Config& config = g_state.config;
  ReadConfig(environ, geteuid(), static_cast<int>(syscall(SYS_getppid)), &config);
  if (config.disabled) return;
  if (config.source != RankSource::kNone && !PrepareGate()) return;
  if (config.source == RankSource::kForced) EnsureAwake(WakeReason::kLoad);
#ifdef FLARE_WITH_PYTHON
  if (config.source != RankSource::kNone) python::StartPython();
#endif
}

}  // namespace
}  // namespace flare

extern "C" {

__attribute__((visibility("default"))) void flare_step(void) { flare::RecordStep(); }

__attribute__((visibility("default"))) const char* flare_version(void) {
  return flare::kLibraryVersion;
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/hold_up.h"

#include <array>

namespace flare::diag {
namespace {

struct Row {
  Doing doing;
  HoldUp hold_up;
};

constexpr std::array kRows = {
    Row{Doing::kDataLoad,
        {"data_loader_stall", 0.85, "waits for its data loader",
         "Look at the data workers of this rank and the storage they read; num_workers=0 "
         "shows the line that is stuck."}},
    Row{Doing::kCheckpoint,
        {"checkpoint_io", 0.8, "is saving a checkpoint",
         "Look at the storage the checkpoint goes to; if saving is just slow, let the others "
         "not wait for it, or raise the time-out."}},
    Row{Doing::kGc,
        {"python_gc", 0.8, "is in a Python garbage collection",
         "Freeze or disable automatic collection (gc.freeze(), gc.disable()) and collect on "
         "all ranks in the same step."}},
    Row{Doing::kFileSystem,
        {"file_system_stall", 0.8, "is blocked in a file system call",
         "Look at the file system behind this path (mount, server, lock, or a pipe nobody "
         "writes to)."}},
    Row{Doing::kUserCode,
        {"user_code_stuck", 0.75, "is in its own code",
         "If this place is not meant to take so long, look for an endless loop there; else "
         "wait: the suspicion goes when the rank moves on."}},
    Row{Doing::kLock,
        {"lock_deadlock", 0.7, "sleeps on a lock",
         "Look at who holds this lock: dump all threads of the process (py-spy dump)."}},
};

}  // namespace

const HoldUp* HoldUpBy(Doing doing) {
  for (const Row& row : kRows) {
    if (row.doing == doing) return &row.hold_up;
  }
  return nullptr;
}

}  // namespace flare::diag

// SPDX-License-Identifier: Apache-2.0
#pragma once

// Keeps a `flare run` alive for its command when a thread of ours crashes.
//
// The embedded engine and daemon are guests in a process whose exit status belongs to the user's
// job. When one of their threads faults or aborts, that thread is parked for ever, the main thread
// is woken through `wake_fd` and goes on waiting for the command, without FLARE.
namespace flare::cli {

// Call from the main thread once the command has started. A crash of the main thread stays one.
void InstallCrashGuard(int wake_fd);

// A thread has crashed: its locks may be held for ever, so call nothing that shares one with it.
bool ThreadHasCrashed();

}  // namespace flare::cli

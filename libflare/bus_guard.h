// SPDX-License-Identifier: Apache-2.0
#pragma once

// Keeps a segment file that somebody truncates from killing the job.
//
// A SIGBUS handler answers a fault inside our own mapping with empty memory and stops recording.
// Any other SIGBUS goes where it would have gone without us: the handler found at installation (or
// the default) is put back and gets the signal. A handler that the program puts in later replaces
// ours; if it passes the signal on to its predecessor, as Python's faulthandler does, the job still
// lives.
namespace flare {

void InstallBusGuard();

}  // namespace flare

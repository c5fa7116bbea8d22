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

// Puts the handler in unless that was done. Called at waking; where that is before main, at the
// first write to the segment after it: a program that looks at its dispositions when it starts
// finds them as they were. Restores errno.
void EnsureBusGuard();

}  // namespace flare

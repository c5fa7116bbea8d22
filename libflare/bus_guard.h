// SPDX-License-Identifier: Apache-2.0
#pragma once

// Keeps a segment file that somebody truncates from killing the job.
//
// When nobody handles SIGBUS, a handler is put in that answers a fault inside our own mapping with
// empty memory and stops recording. Any other SIGBUS ends the process as it would have without us.
// When the program has a handler of its own, or puts one in later, that one stays.
namespace flare {

void InstallBusGuard();

}  // namespace flare

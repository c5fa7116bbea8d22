// SPDX-License-Identifier: Apache-2.0
// Lets a Python program under callgrind say what to count. Outside callgrind these do nothing.
#include <valgrind/callgrind.h>

void StartCounting(void) { CALLGRIND_START_INSTRUMENTATION; }
void Forget(void) { CALLGRIND_ZERO_STATS; }
void Dump(const char* name) { CALLGRIND_DUMP_STATS_AT(name); }

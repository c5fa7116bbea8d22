// SPDX-License-Identifier: Apache-2.0
#pragma once

// Calls into libflare when it is there, as a training program would: by a weak reference where the
// loader resolves it, and not at all in a static program.
__attribute__((weak)) extern void flare_step(void);

static inline void MarkStep(void) {
  if (flare_step) flare_step();
}

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LIBFLARE_FLARE_H_
#define LIBFLARE_FLARE_H_

/* What a program may tell FLARE by itself. Optional: without it step boundaries come from the
 * framework. The functions live in the preloaded library, so look them up with dlsym or declare
 * them weak; none of them fails, blocks, or does anything in a process that is not traced.
 * Any thread may call them. */
#ifdef __cplusplus
extern "C" {
#endif

/* Says that a training step has ended. */
void flare_step(void);

/* Version of the library, such as "0.1.0". Never null. */
const char* flare_version(void);

#ifdef __cplusplus
}
#endif

#endif /* LIBFLARE_FLARE_H_ */

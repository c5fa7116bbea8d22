// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

// Keeps libflare.so loadable on any glibc from 2.28 on, whatever glibc it was built with.
//
// Included before every source of the library by the build. The functions below moved from libdl
// into libc with a new symbol version; we ask for the old version, which both places offer, and
// weakly: in a process of an old glibc that has no libdl they are null. Check before the call.
#if defined(__x86_64__)
#define FLARE_GLIBC_BASE "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define FLARE_GLIBC_BASE "GLIBC_2.17"
#else
#error "libflare does not know the base version of glibc on this architecture"
#endif

__asm__(".symver dlsym,dlsym@" FLARE_GLIBC_BASE);
__asm__(".symver dlopen,dlopen@" FLARE_GLIBC_BASE);
__asm__(".symver dladdr,dladdr@" FLARE_GLIBC_BASE);
__asm__(".symver dlvsym,dlvsym@" FLARE_GLIBC_BASE);
#pragma weak dlsym
#pragma weak dlopen
#pragma weak dladdr
#pragma weak dlvsym

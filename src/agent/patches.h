/* SPDX-License-Identifier: Apache-2.0 */
/* Patches that the collector has computed and we carry out (wire/site.h). */
#pragma once

#include "agent/agent.h"

/* The function that stubs jump to; in our .dynsym for tracers. */
void tidemark_patched(void);

/*
 * Maps the islands and writes the patches of the session. While there is one
 * thread, and no function is patched yet. What could not be done is told to the
 * collector (WIRE_EV_UNHOOKED), and left as it was.
 */
void patches_apply(void);
/*
 * Likewise for libraries that were loaded since, and have an allocator in them:
 * the collector is asked. With other threads nothing is changed.
 */
void patches_late(void);

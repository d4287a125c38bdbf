/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patched functions in no special way, which change all registers that a call may
 * change themselves: hooked as the preloaded ones are. tidemark_patched jumps here,
 * so each is called by the program, with the site (wire/site.h) as fourth argument.
 */
#pragma once

#include "agent/entry.h"
#include "wire/site.h"

/* Of one argument. */
void *patched_malloc(size_t bytes, uintptr_t none, uintptr_t nor, const struct wire_site *what);
void patched_release(void *block, uintptr_t none, uintptr_t nor, const struct wire_site *what);

/* Of three at most. */
uintptr_t patched_few_alloc(uintptr_t a, uintptr_t b, uintptr_t c, const struct wire_site *what);
void patched_few_free(uintptr_t a, uintptr_t b, uintptr_t c, const struct wire_site *what);
uintptr_t patched_few_realloc(uintptr_t a, uintptr_t b, uintptr_t c, const struct wire_site *what);

/* Not everything is recorded: sampled, paused, or switched off meanwhile. */
void patched_unrecorded(struct lane *lane, const struct call_site *site, enum wire_api api,
			struct hook_new_block new, struct heap_name heap);

/* The new block has the name of its allocator, if that has one. */
static AGENT_INLINE void patched_note(struct lane *lane, const struct call_site *site,
				      enum wire_api api, struct hook_new_block new,
				      struct heap_name heap)
{
	if (lane_is_wiped(lane))
		return;
	if (hook_recording())
		hook_heap_block(lane, site, WIRE_OP_ALLOC, api, new.block, new.bytes, new.alignment,
				heap);
	else
		patched_unrecorded(lane, site, api, new, heap);
}

/* Before and after the function itself, as the outermost of what it may call. */
static inline uintptr_t patched_call_begins(struct lane *lane, const struct call_site *site)
{
	lane->real_pc = site->pc;
	return hook_call(lane, site);
}

static inline void patched_call_ends(struct lane *lane, uintptr_t outer)
{
	hook_return(lane, outer);
	if (unlikely(outer)) /* a signal's handler was here */
		lane->real_pc = ((const uintptr_t *)outer)[-1];
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points that only some allocators have (jemalloc's mallocx, mimalloc's
 * mi_*, tcmalloc's tc_*, their operator new). The agent cannot export those
 * names: programs test for them to find out which allocator they run on.
 * Instead the slots through which loaded objects call them (their GOTs) are
 * pointed to the hooks, and only where a shared library defines them: at the
 * start, and when objects were loaded since (redirect_late()).
 *
 * Known limits: addresses taken by dlsym() are not redirected. An allocator that
 * is loaded later is followed in its own functions; its operator new is not. Of
 * two that define the same names, the first is followed.
 */
#pragma once

#include "agent/agent.h"
#include "agent/elf.h"

struct redirect {
	const char *name;
	void *hook;
	void **real; /* filled with the definition found */
};

/* Before other threads exist. Does nothing when no such allocator is loaded. */
void redirect_start(const struct elf_scope *scope);

/*
 * Looks at what was loaded since. Calls the C library (dl_iterate_phdr, which
 * holds the loader's list still): only where the program has just called, or is
 * about to call, the loader, never on the way of an event. True: something was.
 */
bool redirect_late(void);

/* Of an allocator of which it is known that nothing but its mappings goes through hooks. */
static inline bool redirect_is_heap_code(uintptr_t pc)
{
	return pc - agent_fixed.heap_start < agent_fixed.heap_end - agent_fixed.heap_start;
}

/* entry_foreign.c: the table, ended by a NULL name. */
extern const struct redirect redirects[];

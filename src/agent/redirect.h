/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points that only some allocators have (jemalloc's mallocx, mimalloc's
 * mi_*, tcmalloc's tc_*, their operator new). The agent cannot export those
 * names: programs test for them to find out which allocator they run on.
 * Instead, once at the start, the slots through which loaded objects call them
 * (their GOTs) are pointed to the hooks, and only where a shared library
 * defines them.
 *
 * Known limits: objects loaded later and addresses taken by dlsym() are not
 * redirected.
 */
#pragma once

#include "agent/elf.h"

struct redirect {
	const char *name;
	void *hook;
	void **real; /* filled with the definition found */
};

/* Before other threads exist. Does nothing when no such allocator is loaded. */
void redirect_start(const struct elf_scope *scope);

/* entry_foreign.c: the table, ended by a NULL name. */
extern const struct redirect redirects[];

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent of a new process is to patch, because LD_PRELOAD does not reach
 * it: an allocator that is linked into the program or hidden in a library, and
 * what the user named with --hook. Needs no right to trace: the agent does the
 * patching, in its constructor, while its process has one thread and waits for
 * our answer. The same for libraries that the process loads later.
 */
#pragma once

#include "base/error.h"
#include "inject/plan_hook.h"
#include "wire/site.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct plan;

enum { PATCHING_UNHOOKED_BYTES = 200 };

/* What was looked at in a process already. Zeroed: nothing. */
struct patching_known {
	struct patching_module {
		uint64_t start, device, inode;
		bool late; /* it may be unloaded */
	} * modules;
	size_t count;
	/* For libraries that were loaded later: used again when theirs is gone. */
	struct patching_island {
		uint64_t address, bytes;
		struct patching_module owner;
	} islands[WIRE_LATE_ISLANDS];
	size_t island_count;
	uint32_t closes;      /* as the agent said when it last asked */
	uint64_t hooks_found; /* of the user's list */
	char refused[PATCHING_UNHOOKED_BYTES];
	char told[PATCHING_UNHOOKED_BYTES]; /* what its trace says */
};
void patching_known_done(struct patching_known *known);

struct patching {
	void *bytes; /* struct wire_patches and what follows, for the session's memory; NULL none */
	size_t count;
	char unhooked[PATCHING_UNHOOKED_BYTES]; /* a sentence: what could not be hooked; or "" */
};

struct patching_options {
	pid_t pid;
	uint64_t glue; /* as the agent said */
	const struct plan_hooks *hooks;
	struct patching_known *known; /* updated */
	bool late;                    /* only what is not known yet; the agent counts threads */
	uint32_t closes;              /* late: as the agent said */
};

/* Never fails: what cannot be is told in unhooked. Reads files; 1 to 20 ms. */
void patching_new(const struct patching_options *options, struct patching *ret);
void patching_done(struct patching *patching);

/* The same for all that a plan refuses and, if hooks is given, for those of its functions that are
 * not found. */
void patching_refuse_all(char unhooked[PATCHING_UNHOOKED_BYTES], const struct plan *plan,
			 const struct plan_hooks *hooks, uint64_t hooks_found);

/* Appends "NAME (reason)" to a sentence about what is not hooked. */
void patching_refuse(char unhooked[PATCHING_UNHOOKED_BYTES], const char *name, const char *reason);

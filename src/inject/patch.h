/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan for one process: the bytes of the island and of each patch.
 *
 *	plan_new(&source, &plan, err);
 *	patch_reach(plan, &low, &high);          where the island may lie
 *	island = patch_find_gap(...)             map patch_island_bytes(plan) there
 *	patch_place(plan, island, glue, &set, err);
 *	write set->island to island, make it r-x; compare the function's bytes with
 *	patch->old; move pcs that lie inside (patch_move_pc()); write patch->new
 *
 * Undoing: write patch->old. The island stays, somebody may still be inside it.
 */
#pragma once

#include "inject/plan.h"

/* The name of the agent's function that stubs jump to, in its .dynsym. */
#define PATCH_GLUE_SYMBOL "tidemark_patched"
/* What programs that speak for themselves call. */
#define PATCH_API_SYMBOL "tidemark_agent_event_v1"

struct patch {
	uint64_t address;               /* of the changed bytes */
	uint8_t old[RELOC_PATCH_BYTES]; /* what must be there */
	uint8_t new[RELOC_PATCH_BYTES];
	const struct plan_entry *entry; /* borrowed from the plan */
	uint64_t copy;                  /* address of the moved instructions */
};

struct patch_set {
	uint64_t address; /* of the island */
	uint8_t *island;  /* its content */
	size_t island_bytes;
	struct patch *patches;
	size_t count;
};

/* Whole pages; 0 when there is nothing to patch. */
size_t patch_island_bytes(const struct plan *plan);

/* An island in [low, high) reaches every function and all they refer to. False: none can. */
bool patch_reach(const struct plan *plan, uint64_t *ret_low, uint64_t *ret_high);

/* A mapped range of a process, in ascending order. */
struct patch_range {
	uint64_t start, end;
};

/*
 * A free place of so many bytes in [low, high), nearest to `near`, away from the
 * places where the heap and the stack grow (ranges marked by their caller are
 * simply longer). 0: none.
 */
uint64_t patch_find_gap(const struct patch_range *ranges, size_t count,
			const struct patch_range *within, uint64_t near, size_t bytes);

/* glue: address of PATCH_GLUE_SYMBOL in the process. */
TM_MUST_CHECK int patch_place(struct plan *plan, uint64_t island, uint64_t glue,
			      struct patch_set **ret_set, struct tm_error *err);
/* Accepts NULL, returns NULL. */
struct patch_set *patch_set_free(struct patch_set *set);

/* Where a thread at pc must go on when the patches are in: pc itself, or in the island. */
uint64_t patch_move_pc(const struct patch_set *set, uint64_t pc);

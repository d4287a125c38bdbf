/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code of one unit: where its functions are, and what was inlined into one
 * of them. The functions come from one walk that leaves out their inside where
 * the file says where that ends; a function's inside is read when it is asked
 * for.
 */
#pragma once

#include "symbols/unit.h"

struct scope_function {
	uint64_t low, high; /* [low, high) */
	uint64_t die;
};

struct functions {
	struct scope_function *list; /* by address */
	size_t count, room;
	bool is_deep; /* functions inside functions are in, too */
};

/* -EFBIG, -ENOMEM. */
TM_MUST_CHECK int functions_load(struct functions *functions, struct unit *unit, bool deep);
void functions_done(struct functions *functions);
/* The innermost that has the address, or NULL. O(log functions). */
const struct scope_function *functions_find(const struct functions *functions, uint64_t address);

struct scope {
	uint64_t low, high;
	uint32_t depth; /* 1 = inlined into the function itself, and so on */
	uint64_t die;
};

struct scope_call {
	uint64_t return_pc;
	uint64_t die; /* of the call site */
};

/* What was inlined into a function, and the calls that it makes. */
struct scopes {
	struct scope *list;
	size_t count, room;
	struct scope_call *calls;
	size_t call_count, call_room;
	bool has_tail_calls;
};

/* -EFBIG, -ENOMEM. */
TM_MUST_CHECK int scopes_load(struct scopes *scopes, struct unit *unit, uint64_t die);
void scopes_done(struct scopes *scopes);

/*
 * The inlined entries that contain the address, outermost first; at most max.
 * Returns how many.
 */
size_t scopes_find(const struct scopes *scopes, uint64_t address, uint64_t *ret_dies, size_t max);

/*
 * The same of a function that was not loaded, in one walk that leaves out what
 * has not got the address: for a single question. *ret_call: as scopes_call()
 * of the byte after the address.
 */
size_t scopes_search(struct unit *unit, uint64_t function, uint64_t address, uint64_t *ret_dies,
		     size_t max, uint64_t *ret_call);

/* The call site whose call returns to the address, 0 if there is none. */
uint64_t scopes_call(const struct scopes *scopes, uint64_t return_pc);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that left no frame. A caller's call site says whom it calls; where the
 * frame inside is another function, the one that was called has ended in a jump
 * to it. That is believed only of functions that do make such tail calls.
 */
#pragma once

#include "symbols/namemap.h"
#include "symbols/scopes.h"

struct tail {
	struct tail_instance *instances; /* by the entry they are an instance of */
	size_t instance_count;
	bool has_instances;
	struct namemap known; /* by entry; flag: it makes tail calls */
};

void tail_done(struct tail *tail);

/*
 * The entry of the function that a call site calls, if it is known and makes
 * tail calls. functions: of the unit.
 */
bool tail_callee(struct tail *tail, struct unit *unit, const struct functions *functions,
		 uint64_t call_site, struct die *ret_callee);

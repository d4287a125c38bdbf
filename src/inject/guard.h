/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that traces. It is not the one that the user sees and may kill:
 *
 *	recorder ── order ──> guard        enter, patch, look, leave
 *	         <── fill ───               lay out the shared memory
 *	         <── done ───               result, facts
 *
 * When the recorder is gone, however that came, the guard finishes what it is
 * doing, switches the agent off, restores the code and ends. When the guard is
 * killed, the code that it has a thread run gives that thread back by itself, and
 * another guard can leave. Internal to inject.
 */
#pragma once

#include "inject/inject.h"

#define GUARD_NAME "tm-guard" /* as ps shows it */

enum guard_what {
	GUARD_ENTER = 1,
	GUARD_PATCH,
	GUARD_LOOK,
	GUARD_LEAVE,
	GUARD_FILL,
	GUARD_FILLED,
	GUARD_DONE,
};

struct guard_order {
	enum guard_what what;
	inject_fill_fn fill;
	void *ctx;
};

/* Has the guard do it; one is started where there is none. What it found is in inject. */
TM_MUST_CHECK int guard_do(struct inject *inject, const struct guard_order *order,
			   struct tm_error *err);
/* Returns when it is gone, having left the process if nobody had. Accepts that there is none. */
void guard_end(struct inject *inject);

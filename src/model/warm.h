/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefetching for tables that exceed a private cache: the lines of the index,
 * then blocks, then their stacks, each some events before they are needed.
 */
#pragma once

#include "model/state.h"

/* Beyond these the tables exceed a private cache. */
enum { WARM_BLOCKS = 8192, WARM_STACKS = 2048, WARM_RING = 128 };

struct warm_ahead {
	size_t lines, blocks, stacks; /* events of the batch that each has done */
	uint64_t mixed[WARM_RING];    /* key in the live table; 0: it is not there */
	const struct live_block *found[WARM_RING];
};

static inline bool warm_helps(const struct model *m)
{
	return live_count(&m->live) > WARM_BLOCKS || m->stacks.touched_count > WARM_STACKS;
}

/*
 * Before the events up to `next` are applied: what those after them will touch
 * is called for. `ahead` may have fallen behind while the tables were small.
 */
void warm_tables(const struct model *m, const struct trace_event *events, size_t next, size_t count,
		 struct warm_ahead *ahead);

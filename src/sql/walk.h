/* SPDX-License-Identifier: Apache-2.0 */
/* Going through the blocks of events, passing over those that cannot matter. */
#pragma once

#include "sql/state.h"

struct walk {
	struct sql *sql;
	size_t index, count;            /* of event blocks; index: the next to look at */
	struct trace_event_block facts; /* of the loaded one */
	struct trace_event *events;
	size_t room;
	bool skipped; /* blocks before the loaded one were passed over or cannot be read */
};

/* Whether a block is to be read. Births in it have ids [facts->first_block_id, end_block_id). */
typedef bool (*walk_wants_fn)(void *ctx, const struct trace_event_block *facts,
			      uint64_t end_block_id);

void sql_walk_init(struct walk *walk, struct sql *sql);
void sql_walk_done(struct walk *walk);
/*
 * Loads the next block that is wanted and can be read; *ret_loaded false: there is none. Tells the
 * progress function. -ECANCELED, -ENOMEM, or a failure to read.
 */
TM_MUST_CHECK int sql_walk_load(struct walk *walk, walk_wants_fn wants, void *ctx, bool *ret_loaded,
				struct tm_error *err);

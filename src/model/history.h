/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking things up in the events of a trace: which allocation made a block,
 * what a thread did before. Keeps the event blocks that were decoded last. What
 * lies in a damaged block is not known; that is no failure.
 */
#pragma once

#include "base/error.h"
#include "trace/trace.h"

enum { HISTORY_KEPT = 8 };

struct history_part { /* a decoded event block */
	struct trace_event_block facts;
	struct trace_event *events;
	uint32_t *births; /* places of the allocations, in order */
	size_t birth_count;
	uint64_t used; /* rises with each use; 0 = empty */
};

struct history {
	struct trace_reader *reader;
	struct history_part parts[HISTORY_KEPT];
	size_t part_index[HISTORY_KEPT];
	uint64_t uses;
	int error; /* of the last failure */
};

void history_init(struct history *history, struct trace_reader *reader);
void history_done(struct history *history);

/*
 * Event block number `index`, decoded; NULL on failure, the code in history->error. Borrowed until
 * HISTORY_KEPT others have been asked for.
 */
TM_MUST_CHECK const struct history_part *history_part(struct history *history, size_t index,
						      struct tm_error *err);
/* The first event block that holds event `ordinal` or a later one; the block count if none does. */
size_t history_index_of_event(const struct history *history, uint64_t ordinal);
/* The allocation event of a block, or NULL if the trace does not hold it. Borrowed likewise. */
TM_MUST_CHECK int history_birth(struct history *history, uint64_t block_id,
				const struct trace_event **ret, struct tm_error *err);
/* Whether the thread that allocated the block did nothing after that, up to event `end`. */
TM_MUST_CHECK int history_idle_since_birth(struct history *history, uint64_t block_id,
					   uint32_t thread_id, uint64_t end, bool *ret,
					   struct tm_error *err);
/* The thread's last half of a realloc before event `end`, or NULL. Borrowed likewise. */
TM_MUST_CHECK int history_last_realloc(struct history *history, uint32_t thread_id, uint64_t end,
				       const struct trace_event **ret, struct tm_error *err);

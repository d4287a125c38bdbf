/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks from events: births joined to their ends in bounded memory.
 *
 * One pass goes forward and remembers the open blocks that can match; each comes
 * out when it ends, or at the end of the recording. When there is no room for
 * more open blocks, the pass admits no further births, goes on until its blocks
 * have ended, and another pass begins at the first birth that was not admitted.
 * A pass stops as soon as nothing is open that could still matter.
 *
 * If nobody asks how blocks end, each comes out at its birth.
 */
#pragma once

#include "sql/open_blocks.h"
#include "sql/stack_set.h"
#include "sql/walk.h"

enum pairing_end { PAIRING_LIVE, PAIRING_FREE, PAIRING_REALLOC, PAIRING_UNSEEN };

struct pairing_block {
	struct open_block birth;
	uint64_t end_ns;
	uint32_t end_thread_id, end_stack_id;
	enum pairing_end end;
	bool temporary;
};

struct pairing_thread {
	uint64_t last_birth; /* block_id + 1 that the thread allocated last, nothing since; or 0 */
	bool knows_realloc;  /* a half of a realloc was seen in this pass */
	uint64_t chain;      /* block_id that its open realloc ended, or TRACE_NO_BLOCK */
	bool is_pending;     /* pending has ended so, unless that realloc fails */
	struct pairing_block pending;
};

/* What can match; everything outside may be left out. */
struct pairing_wishes {
	int64_t min_block_id, max_block_id;
	int64_t min_birth_ns, max_birth_ns;
	int64_t min_size, max_size;
	int64_t max_end_ns; /* INT64_MAX: live blocks, too */
	bool ends;          /* how the blocks end matters */
	bool temporary;     /* so does this */
	bool chains;        /* so does realloc_from */
	/* Finer than the bounds; may be NULL. */
	bool (*admits)(void *ctx, const struct trace_event *birth);
	void *ctx;
};

struct pairing {
	struct sql *sql;
	struct pairing_wishes wishes;
	const struct stack_set *stacks;
	struct walk walk;
	struct open_blocks open;
	struct pairing_thread *threads;
	size_t thread_count;
	bool loaded, closed, draining;
	uint64_t next_pass_id; /* the first block_id that was not admitted */
	size_t next_pass_index;
	size_t at, drain_at, drain_thread;
};

TM_MUST_CHECK int pairing_init(struct pairing *pairing, struct sql *sql,
			       const struct pairing_wishes *wishes, const struct stack_set *stacks,
			       struct tm_error *err);
void pairing_done(struct pairing *pairing);
/* The next block; *ret_found false: there is no more. */
TM_MUST_CHECK int pairing_next(struct pairing *pairing, struct pairing_block *ret, bool *ret_found,
			       struct tm_error *err);

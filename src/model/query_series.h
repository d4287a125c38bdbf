/* SPDX-License-Identifier: Apache-2.0 */
/* The second half of query.h, which includes it: curves over time, and single blocks. */
#pragma once

#include "base/error.h"
#include "model/query.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- curves ---- */

struct query_point {
	uint64_t start_ns, end_ns; /* what it covers: (start, end], on ends of slices or events */
	uint64_t live_bytes, live_blocks;        /* at its end */
	uint64_t min_live_bytes, max_live_bytes; /* within it */
	uint64_t max_live_time_ns;
	uint64_t allocations, allocated_bytes, frees, freed_bytes, temporary; /* within it */
	uint64_t mapped_bytes;                                                /* at its end */
	uint64_t rss_bytes, pss_bytes; /* largest sample within it, else the last before */
};

struct query_curve {
	uint32_t group;             /* as the caller numbered them */
	struct query_point *points; /* as many as the timeline has */
};

struct query_timeline_options {
	uint64_t from_ns, to_ns;
	size_t points;                     /* wanted at most; 0 = 200 */
	const struct filter_bound *filter; /* NULL: all */
	/* For stacked charts: group of each stack, UINT32_MAX = none; NULL: no curves. */
	const uint32_t *group_of;
	size_t group_count;
	struct query_progress progress;
};

struct query_timeline {
	struct query_point *points; /* overall, or of the filter */
	size_t point_count;
	struct query_curve *curves; /* one per group: live and rates; extremes at ends of points */
	size_t curve_count;
	enum query_way way;
	uint64_t event_blocks, bytes_read;
};
TM_MUST_CHECK int query_timeline(struct query_section *section,
				 const struct query_timeline_options *options,
				 struct query_timeline *ret_timeline, struct tm_error *err);
void query_timeline_done(struct query_timeline *timeline);

/* ---- single blocks ---- */

struct query_block {
	uint64_t block_id, address, size_bytes; /* address 0: not stored */
	struct trace_weight weight;      /* what it stands for: 1 and its size unless sampled */
	uint64_t birth_ns, end_ns;       /* UINT64_MAX: unfreed */
	uint64_t birth_event, end_event; /* ordinals; UINT64_MAX likewise */
	uint64_t next_block_id; /* the block that a realloc made of it; TRACE_NO_BLOCK none */
	uint32_t stack_id, free_stack_id;   /* free_stack_id 0: none or not recorded */
	uint32_t thread_id, free_thread_id; /* free_thread_id UINT32_MAX: none */
	uint8_t op, end_op;                 /* enum trace_op; end_op TRACE_OP_COUNT: unfreed */
	uint8_t api, align_log2;
	bool is_temporary;
	/* Its end is not known: looking for it was given up (options.patience_ns), or it is of an
	 * imported file that does not tell blocks apart. */
	bool is_open;
};
/* Not 0 stops with that value. */
typedef int (*query_block_fn)(void *ctx, const struct query_block *block);

enum query_blocks_mode {
	QUERY_BLOCKS_ALLOCATED, /* born in the range */
	QUERY_BLOCKS_FREED,     /* ended in it */
	QUERY_BLOCKS_KEPT,      /* born in it and live at its end */
	QUERY_BLOCKS_LIVE,      /* live at its end */
	QUERY_BLOCKS_ALL,       /* born, ended, or live in it */
};
struct query_blocks_options {
	uint64_t from_ns, to_ns;
	enum query_blocks_mode mode;
	const struct filter_bound *filter;
	uint64_t first_block_id; /* paging: go on with the last block_id + 1 */
	uint64_t limit;          /* 0 = all */
	/* Each as soon as its fate is known, no limit, at most 48 MiB: where more live at once than
	 * that, in groups by birth, with a pass over the events for each. */
	bool unordered;
	/* With a limit and QUERY_BLOCKS_ALLOCATED, when the filter asks for nothing that is known
	 * only at a block's end: after so long the first are told whose births were met, even if
	 * the end of some is not known yet. 0: all ends are looked for. */
	uint64_t patience_ns;
	struct query_progress progress;
};
/*
 * In order of block_id. Memory: what is chosen and live at once, at most `limit` blocks. With a
 * limit only those blocks of events are read in which one of the first so many can begin or end.
 * The history of an address is the filter "address=0x..." with QUERY_BLOCKS_ALL.
 */
TM_MUST_CHECK int query_blocks(struct query_section *section,
			       const struct query_blocks_options *options, query_block_fn fn,
			       void *ctx, struct tm_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events at the edges of a range, each with what it means for the figures:
 * ends know the stack and size of their block, failed reallocs the block that
 * comes back. What a block of events does not say itself is in the ENDS beside
 * it; in files without those, in older events.
 */
#pragma once

#include "model/query_section.h"

enum edge_kind { EDGE_BIRTH, EDGE_END, EDGE_RETURN, EDGE_FAILED };

struct edge_event {
	enum edge_kind kind;
	uint64_t ordinal, time_ns;
	uint64_t block_id, size_bytes;
	struct trace_weight weight; /* what the block stands for */
	uint64_t held_ns;           /* of a return: since when the block was away */
	uint32_t stack_id;
	bool is_temporary;
};

enum { EDGE_PARTS = 10 };

/* A block of events whose ends are resolved. */
struct edge_part;

/* The asking thread's own. */
struct edges {
	struct query_section *section;
	struct history history;
	struct edge_part *parts[EDGE_PARTS];
	uint64_t uses;
	uint64_t blocks_read, unread_events;
	struct tm_error *err;
};

void edges_init(struct edges *edges, struct query_section *section, struct tm_error *err);
void edges_done(struct edges *edges);

/* The events of a part, borrowed until some others were asked for; NULL if they are damaged. */
TM_MUST_CHECK int edges_events(struct edges *edges, size_t index, const struct trace_event **ret);

typedef void (*edge_fn)(void *ctx, const struct edge_event *event);
/* Events [first, end) in order. 0, -ENOMEM, -EIO; what is damaged is counted and left out. */
TM_MUST_CHECK int edges_visit(struct edges *edges, uint64_t first, uint64_t end, edge_fn fn,
			      void *ctx);
/* When a block was born, exactly as far as `model_bucket` of its life at end_ns goes. */
TM_MUST_CHECK int edges_life_bucket(struct edges *edges, uint64_t block_id, uint64_t end_ns,
				    uint32_t *ret_bucket);

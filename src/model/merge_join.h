/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process on its way into a merged trace: its live blocks by their old and
 * new numbers, and the borders between its pieces. A piece begins with the blocks
 * that live at the end of the one before, in the order of their birth: number n
 * here is number n there, and size and stack must agree.
 */
#pragma once

#include "model/blockmap.h"
#include "model/cursor.h"
#include "model/merge_names.h"

struct merge_stream {
	size_t number, part;
	bool opened;
	uint64_t key_ns; /* of its next thing, in merged time */
	struct cursor cursor;
	uint64_t at; /* in the cursor's block */
	struct blockmap live;
	uint64_t *pending; /* by old thread id: block that a realloc has begun to end, + 1 */
	size_t pending_room;
	/* What is not a heap event. */
	const struct trace_map_event *maps;
	const struct trace_sample *samples;
	const struct trace_moment *moments;
	size_t map_count, sample_count, moment_count;
	size_t next_map, next_sample, next_moment;
	struct trace_sample last_sample; /* its share of the sums */
};

void merge_stream_init(struct merge_stream *s, size_t number, size_t part);
void merge_stream_done(struct merge_stream *s);
/*
 * Gives the event, which has its merged stack and time, its merged block number (births are
 * numbered by *next_id). old_thread is the part's. -ENOMEM.
 */
TM_MUST_CHECK int merge_stream_follow(struct merge_stream *s, struct trace_event *event,
				      uint32_t old_thread, uint64_t *next_id);

/* The begin of a piece that continues the one before. */
struct merge_border {
	/* Set by the caller: */
	struct merge_stream *stream;
	struct merge_names *names;
	struct tm_error *err;
	/* Its own: */
	struct blockmap_entry *before; /* that lived, then those pending, by old number */
	size_t live_count, pending_count, next_live, next_pending;
	struct blockmap_entry held; /* the last birth: pending if the begin half follows */
	bool holds;
	struct blockmap after;
	uint64_t births;
};

TM_MUST_CHECK int merge_border_open(struct merge_border *border);
/* An event at time 0 of the new piece. -ENODATA if it does not fit. */
TM_MUST_CHECK int merge_border_event(struct merge_border *border, const struct trace_event *event);
/* The new piece's numbers count from now on. -ENODATA if something is missing. */
TM_MUST_CHECK int merge_border_close(struct merge_border *border, uint64_t *joined);
void merge_border_done(struct merge_border *border);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts of one section, fed by events (live or when an index is rebuilt)
 * or loaded from a trace's aggregates. docs/figures.md defines every figure.
 * Not thread-safe: one thread feeds, the same thread or (after the feed ended)
 * another asks.
 */
#pragma once

#include "base/error.h"
#include "trace/records.h"
#include "trace/trace.h"

#include <stddef.h>

struct model;

struct model_options {
	uint64_t slice_events; /* a slice ends after so many events (0 = default 262144; doubles as
				  slices become many) */
	uint64_t slice_ns;     /* or after so long, if there were events (0 = default 5 s; doubles
				  likewise) */
	uint64_t page_bytes;   /* of the recorded machine, for mapped memory (0 = 4096) */
	bool tells_unseen;     /* the caller takes and stores them: model_take_unseen() */
	bool maps_by_stack;    /* who mapped what is mapped is known: resume_maps_within() */
};

TM_MUST_CHECK int model_new(const struct model_options *options, struct model **ret_model,
			    struct tm_error *err);
struct model *model_free(struct model *m);

/*
 * Apply a batch in order. Fills block_id, and for frees stack_id, size_bytes,
 * and TRACE_EVENT_TEMPORARY; turns an op into TRACE_FREE_OLDER when the block is
 * unknown. An ALLOC on a live address: the caller has been told by
 * model_is_live() and inserted a FREE_UNSEEN first; or the model ends that block
 * and tells by model_take_unseen(); without that, a model rebuilt from a trace of
 * such events would not know of that end. A free of a block that was born before
 * the open slice gets TRACE_EVENT_OLD. Sizes from 2^48 on are cut (totals say so).
 *
 * May fail for lack of memory only (or beyond 2^30 events without a slice taken).
 * Each event is then either applied wholly or, from the first failure on,
 * untouched; model_totals().events tells how many were applied. They can be
 * given again.
 */
TM_MUST_CHECK int model_apply(struct model *m, struct trace_event *events, size_t count,
			      struct tm_error *err);
/*
 * Ends that nobody told of: a block was still live where another was born. Each is a
 * FREE_UNSEEN that has been applied and belongs into the stream of events at its
 * ordinal: before the event that showed it. Those since the last call, in order;
 * borrowed until the next event is applied.
 */
struct model_unseen {
	uint64_t ordinal;
	struct trace_event event;
};
size_t model_take_unseen(struct model *m, const struct model_unseen **ret_ends);
/*
 * What was applied since they were last taken, with them between: in pieces, in order, until fn is
 * not 0, which is then returned. *ret_count says how many there are in all.
 */
typedef int (*model_stored_fn)(void *ctx, const struct trace_event *events, size_t count);
TM_MUST_CHECK int model_weave_unseen(struct model *m, const struct trace_event *events,
				     size_t count, model_stored_fn fn, void *ctx,
				     uint64_t *ret_count);
/* Frees of blocks that were never seen, so far. */
uint64_t model_freed_older(const struct model *m);
/* The ordinal of the next event. */
uint64_t model_next_event(const struct model *m);
bool model_is_live(const struct model *m, uint64_t address);
/* The block that this thread's last REALLOC_FREE ended will not come back: nothing continues it. */
void model_forget_realloc(struct model *m, uint32_t thread_id);
/* The address of the block that would come back if this thread's realloc failed; 0: none. */
uint64_t model_realloc_address(const struct model *m, uint32_t thread_id);
/* Hint: these addresses come soon. */
void model_prefetch(const struct model *m, uint64_t address);
/* mremap: a TRACE_UNMAP of the old range, then a TRACE_MAP with moved_from by the same thread. */
TM_MUST_CHECK int model_apply_map(struct model *m, const struct trace_map_event *event,
				  struct tm_error *err);
void model_apply_sample(struct model *m, const struct trace_sample *sample);

/*
 * Slices. After each apply: if a slice is due, take it, write it, and go on;
 * and once more at the end.
 * model_slice_due() is O(1). model_slice_take() closes the open slice at its
 * last event and gives its rows (borrowed until the next slice is taken); on
 * failure the slice stays open. O(stacks that changed in it). At most 65,535
 * slices, which the doubling limits never reach.
 */
bool model_slice_due(const struct model *m);
TM_MUST_CHECK int model_slice_take(struct model *m, struct trace_slice *ret_slice,
				   struct tm_error *err);

/* The open slice as it is now; it goes on. Its rows are borrowed as those of one that is taken. */
TM_MUST_CHECK int model_slice_look(struct model *m, struct trace_slice *ret_slice,
				   struct tm_error *err);

/* The number of the next block that is born. */
uint64_t model_next_block(const struct model *m);

/* Totals of the section so far. */
struct model_totals {
	uint64_t duration_ns; /* of the last event or sample */
	uint64_t events, allocations, frees, allocated_bytes, freed_bytes;
	uint64_t temporary, failed, freed_unseen, freed_older;
	uint64_t live_bytes, live_blocks;
	uint64_t peak_bytes, peak_blocks, peak_time_ns;
	uint64_t mapped_bytes, mapped_peak_bytes, reserved_bytes, file_mapped_bytes;
	uint64_t mapped_peak_time_ns, reserved_peak_bytes, file_mapped_peak_bytes;
	uint64_t peak_rss_bytes, peak_rss_time_ns;
	/* at the moment of the peak RSS sample: */
	uint64_t rss_heap_bytes, rss_mapped_bytes, rss_agent_bytes, rss_anon_bytes;
	uint64_t stacks;                    /* distinct stacks that allocated */
	uint64_t brk_bytes, brk_peak_bytes; /* the allocator's memory, not part of mapped_bytes */
	uint64_t unread_events;             /* in damaged parts of a trace: not in these figures */
	bool saturated; /* sizes beyond 2^48 or sums beyond 2^64 were cut: the figures are lower
			   bounds */
};
void model_totals(const struct model *m, struct model_totals *ret);

/* Per stack, all time. */
struct model_stack {
	uint32_t stack_id;
	uint64_t allocations, allocated_bytes, frees, freed_bytes, temporary, failed;
	uint64_t live_blocks, live_bytes; /* now, or at the end: unfreed */
	uint64_t peak_blocks, peak_bytes; /* its share of the peak */
};
typedef int (*model_stack_fn)(void *ctx, const struct model_stack *stack);
/* In order of stack_id, only stacks that allocated or failed. */
int model_stacks(const struct model *m, model_stack_fn fn, void *ctx);
/* One stack; -ENOENT if it never allocated or failed. O(1). */
TM_MUST_CHECK int model_stack_find(const struct model *m, uint32_t stack_id,
				   struct model_stack *ret);

/*
 * Loads totals and per-stack figures from a trace's slices, and replays only
 * the events after the last slice. If slices are damaged it rebuilds instead;
 * damaged blocks of events are left out and counted in unread_events. Cost: the
 * slices, and the events of at most one slice.
 */
TM_MUST_CHECK int model_load(struct trace_reader *r, struct model **ret_model,
			     struct tm_error *err);
struct model_load_options {
	/* While it rebuilds; may be NULL. Not 0 stops: -ECANCELED. */
	int (*progress)(void *ctx, uint64_t done_events, uint64_t all_events);
	void *ctx;
	unsigned threads; /* that decode events; 0 = one per core */
	bool addresses;   /* of live blocks, for model_live_blocks() after a rebuild */
	bool anew;        /* rebuild, whatever aggregates the trace has */
};
/* The same with options; *ret_rebuilt (may be NULL) tells whether slices were missing or damaged.
 */
TM_MUST_CHECK int model_load_with(struct trace_reader *r, const struct model_load_options *options,
				  struct model **ret_model, bool *ret_rebuilt,
				  struct tm_error *err);
/* Recomputes everything from all events (slow; the reference for tests and for files without
 * slices). */
TM_MUST_CHECK int model_rebuild(struct trace_reader *r, struct model **ret_model,
				struct tm_error *err);

/*
 * Gives back what is only there for speed, and from now on ends slices before their counters take
 * much memory. The figures stay exact. Not between a slice and the use of its rows.
 */
void model_shrink(struct model *m);
/* Bytes the model uses now, about. */
uint64_t model_memory_bytes(const struct model *m);

/* All live blocks, any order. A model made by model_load() does not know them: -EOPNOTSUPP. */
struct model_block {
	uint64_t address, size_bytes, block_id, birth_ns;
	uint32_t stack_id, thread_id;
};
typedef int (*model_block_fn)(void *ctx, const struct model_block *block);
int model_live_blocks(const struct model *m, model_block_fn fn, void *ctx);

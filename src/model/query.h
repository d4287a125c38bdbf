/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions about one section of a trace: any range of time, any filter.
 * docs/figures.md defines every figure, docs/filters.md the filters.
 *
 * A section is opened once and asked many times. Whatever the slices of the
 * trace can answer comes from them, plus the few blocks of events at the edges
 * of the range; filters on size, thread, address and the like scan the blocks of
 * events that can match, and the answer says which way it was found.
 *
 * Times are nanoseconds since the section's start, on whole microseconds. A
 * range holds the events from from_ns to to_ns, both included.
 *
 * Thread-safe: an open section may be asked from several threads at once. The
 * reader it was opened from must stay open, on the same section.
 */
#pragma once

#include "base/error.h"
#include "model/filter.h"
#include "model/model.h"
#include "trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct query_section;

/* ---- opening ---- */

/* Called now and then by the asking thread. Not 0 stops the work: -ECANCELED. */
struct query_progress {
	int (*fn)(void *ctx, uint64_t done_events, uint64_t total_events);
	void *ctx;
};

struct query_open_options {
	unsigned threads;               /* that decode events; 0 = one per core, at most 8 */
	struct query_progress progress; /* of rebuilding, where slices are missing */
	uint32_t tick_events;           /* events per tick of a timeline; 0 = 2048 */
	/* Of query_keep_ticks() of an earlier reading of the same file, which has grown since. It
	 * stays the caller's. NULL: none. */
	struct tick_store *ticks;
};

/*
 * Cost: the slices. Where they are missing or damaged they are rebuilt in memory from all events,
 * with progress. -EBADMSG, -ENOMEM, -ECANCELED.
 */
TM_MUST_CHECK int query_open(struct trace_reader *reader, const struct query_open_options *options,
			     struct query_section **ret_section, struct tm_error *err);
struct query_section *query_close(struct query_section *section);
/* What was made of its events for timelines, alive until query_drop_ticks(). */
struct tick_store *query_keep_ticks(const struct query_section *section);
struct tick_store *query_drop_ticks(struct tick_store *ticks);

/* Totals and stacks of the whole run. Borrowed from the section. */
const struct model *query_model(const struct query_section *section);
/* The reader it stands on; its tables of stacks, threads, modules are loaded. */
struct trace_reader *query_reader(const struct query_section *section);
/* Of the last event or sample. */
uint64_t query_duration_ns(const struct query_section *section);
/* The slices were not in the file and were made from its events. */
bool query_rebuilt(const struct query_section *section);
/* Binds a filter to this section. `names` may be NULL if the filter needs none. */
TM_MUST_CHECK int query_bind(const struct query_section *section, const struct filter *filter,
			     const struct filter_names *names, struct filter_bound **ret_bound,
			     struct tm_error *err);

/* ---- moments ---- */

struct query_mark {
	const char *name;
	uint64_t time_ns;
};

/*
 * "12.5s", "250ms", "12.5" (seconds), "40%", "peak", "start", "end", or the name of a mark
 * ("name#2": the second of that name). A moment after the end is the end. -EINVAL with a sentence.
 */
TM_MUST_CHECK int query_time_parse(const struct query_section *section, const char *text,
				   uint64_t *ret_ns, struct tm_error *err);
/* Marks and pauses of the trace, by time. Borrowed from the reader. */
const struct trace_moment *query_moments(const struct query_section *section, size_t *ret_count);
/*
 * The next pause from *at on, which begins as 0 and moves on; false: no more. One that lasts ends
 * with the run.
 */
bool query_next_pause(const struct query_section *section, size_t *at, uint64_t *ret_start_ns,
		      uint64_t *ret_end_ns);
/* Names for moments; copied. Those of the trace are set when it is opened. */
TM_MUST_CHECK int query_set_marks(struct query_section *section, const struct query_mark *marks,
				  size_t count, struct tm_error *err);

/* ---- figures of a range ---- */

struct query_figures {
	uint64_t allocations, allocated_bytes; /* born in the range */
	uint64_t frees, freed_bytes;           /* ended in it, net of failed reallocs */
	uint64_t temporary;                    /* of these ends */
	uint64_t failed;                       /* allocations that failed in it */
	uint64_t start_blocks, start_bytes;    /* live before its first event */
	uint64_t end_blocks, end_bytes;        /* live after its last */
	uint64_t kept_blocks, kept_bytes;      /* born in it and live at its end */
	uint64_t peak_blocks, peak_bytes;      /* live at the heap's peak in the range */
};

struct query_row {
	uint32_t stack_id;
	struct query_figures figures;
};

struct query_bucket { /* buckets are those of struct trace_bucket */
	uint32_t stack_id;
	uint32_t bucket;
	uint64_t count;
};

struct query_thread {
	uint32_t thread_id;
	uint64_t allocations, allocated_bytes; /* by this thread, in the range */
	uint64_t frees, freed_bytes;           /* frees that this thread called */
	uint64_t foreign_frees;                /* of these, of blocks another thread allocated */
	uint64_t temporary;
	uint64_t end_blocks, end_bytes; /* live at the end, by allocating thread */
};

enum query_want {
	QUERY_PEAK = 1u << 0,    /* the peak of the range and the shares of it */
	QUERY_KEPT = 1u << 1,    /* born in it and live at its end */
	QUERY_SIZES = 1u << 2,   /* births by size and stack */
	QUERY_LIVES = 1u << 3,   /* ends by lifetime and stack */
	QUERY_THREADS = 1u << 4, /* per thread: needs a scan */
	QUERY_ALL = (1u << 5) - 1,
};

struct query {
	uint64_t from_ns, to_ns;           /* cut to the run; from > to: -EINVAL */
	const struct filter_bound *filter; /* NULL: all */
	unsigned want;                     /* enum query_want */
	bool by_scan;                      /* never from aggregates: for tests and doubt */
	struct query_progress progress;
};

enum query_way {
	QUERY_FROM_AGGREGATES, /* slices alone */
	QUERY_FROM_EDGES,      /* slices, and event_blocks blocks of events at the edges */
	QUERY_FROM_SCAN,       /* event_blocks blocks of events were scanned */
};

struct query_answer {
	uint64_t from_ns, to_ns;           /* as cut to the run */
	uint64_t first_event, event_count; /* ordinals that the range covers, unfiltered */
	struct query_figures totals;       /* of all rows together */
	/* The whole heap's peak in the range, its first moment; with QUERY_PEAK. */
	uint64_t peak_bytes, peak_blocks, peak_time_ns;
	struct query_row *rows; /* by stack_id; rows that are all 0 are left out */
	size_t row_count;
	struct query_bucket *sizes, *lives; /* by stack_id, then bucket */
	size_t size_count, life_count;
	struct query_thread *threads; /* by thread_id */
	size_t thread_count;
	enum query_way way;
	uint64_t event_blocks,
		skipped_blocks; /* of events: read; left out since they cannot match */
	uint64_t bytes_read;
	uint64_t unread_events; /* in damaged or missing blocks: not in these figures */
	bool snapped; /* events at an edge are not stored: the edge was moved to a slice's */
};

/* -EINVAL, -ENOMEM, -ECANCELED, -EIO. Filled only on success; query_answer_done() frees it. */
TM_MUST_CHECK int query_ask(struct query_section *section, const struct query *query,
			    struct query_answer *ret_answer, struct tm_error *err);
void query_answer_done(struct query_answer *answer);
/* "from aggregates", "aggregates and 3 event blocks", "scan of 12 event blocks". */
void query_answer_explain(struct text *out, const struct query_answer *answer);

/* Curves over time, and single blocks. */
#include "model/query_series.h"

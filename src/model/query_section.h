/* SPDX-License-Identifier: Apache-2.0 */
/* An open section as the parts of the query code see it. Nothing changes while it is asked. */
#pragma once

#include <pthread.h>

#include "model/history.h"
#include "model/mappings.h"
#include "model/query.h"

/* A block of events: its header, with times that never fall. */
struct section_part {
	uint64_t first_event, event_count, first_block_id;
	uint64_t start_ns, end_ns;
	uint64_t min_size_bytes, max_size_bytes;
};

enum { SECTION_BUFFERS = 12, SECTION_BUFFER_EVENTS = 65536 };

struct query_section {
	struct trace_reader *reader;
	struct model *model;
	unsigned threads;
	uint64_t duration_ns;
	const struct trace_stack *stacks;
	size_t stack_count;
	const struct trace_thread *thread_rows;
	size_t thread_count;
	const struct trace_sample *samples;
	size_t sample_count;
	const struct trace_map_event *maps;
	size_t map_count;
	struct section_part *parts;
	size_t part_count;
	uint64_t stored_events;     /* one past the last that is stored */
	struct trace_slice *slices; /* facts only; none if they had to be rebuilt */
	size_t slice_count;
	uint64_t *births_before; /* per slice, and after the last */
	bool has_gaps;           /* events before stored_events are missing */
	bool culled;             /* some of all slices: blocks that did not live long */
	bool *slice_stored;      /* with gaps: all its events before stored_events are there */
	const struct trace_moment *moments;
	size_t moment_count;
	struct query_mark *marks;
	size_t mark_count;
	bool rebuilt;
	struct tick_store *ticks; /* may be shared with another reading of the same file */
	uint32_t unknown;         /* enum trace_unknown: what an imported trace does not say */
	uint64_t sample_bytes; /* the largest interval that blocks were sampled by; 0: none was */
	/* Buffers for decoded events, kept for the next question. Under lock. */
	pthread_mutex_t lock;
	struct trace_event *buffers[SECTION_BUFFERS];
	size_t buffer_count;
};
/* Room for SECTION_BUFFER_EVENTS events; NULL without memory. Thread-safe. */
struct trace_event *section_take_buffer(struct query_section *section);
void section_give_buffer(struct query_section *section, struct trace_event *buffer);

/* The marks of the trace, so that their names can be used. */
TM_MUST_CHECK int section_take_marks(struct query_section *section, struct tm_error *err);
void section_drop_marks(struct query_section *section);

/* The range of a question in ordinals: events [first, end), births [first, end) among them. */
struct query_range {
	uint64_t from_ns, to_ns;
	uint64_t first_event, end_event;
	uint64_t first_block, end_block;
	bool snapped;
};
struct edges;
/* The mappings that a filter with kind=mapped chooses; `now_ns` is for ages. -ENOMEM, fn's. */
TM_MUST_CHECK int query_mappings(const struct query_section *section,
				 const struct filter_bound *filter, uint64_t now_ns, mapping_fn fn,
				 void *ctx, struct tm_error *err);
/* `edges` are the asking thread's own. */
TM_MUST_CHECK int range_find(struct query_section *section, struct edges *edges, uint64_t from_ns,
			     uint64_t to_ns, struct query_range *ret, struct tm_error *err);
/*
 * The number of the first block that is born in or after event `ordinal`. `counted`: the births
 * before it as slices count them, which is the same where no block stands for others.
 */
TM_MUST_CHECK int range_births_before(struct edges *edges, uint64_t ordinal, uint64_t counted,
				      uint64_t *ret);
/* The first part that holds event `ordinal` or a later one. */
size_t range_part_of_event(const struct query_section *section, uint64_t ordinal);

/* The largest sum of live sizes in a range, at its first moment. */
struct query_peak {
	uint64_t bytes, blocks, time_ns;
	uint64_t event; /* after all events before this ordinal */
};
TM_MUST_CHECK int peak_by_scan(struct query_section *section, const struct query_range *range,
			       const struct query_progress *progress, struct query_answer *counts,
			       struct query_peak *ret, struct tm_error *err);
/* The same from slices; the section has them. */
TM_MUST_CHECK int peak_by_slices(struct query_section *section, const struct query_range *range,
				 struct query_answer *counts, struct query_peak *ret,
				 struct tm_error *err);

/* Rows by stack while an answer is made. */
struct answer_rows {
	struct query_row *rows;
	size_t count, room;
	uint32_t *row_of; /* by stack, plus 1 */
	size_t stack_count;
};
TM_MUST_CHECK int rows_init(struct answer_rows *rows, size_t stack_count);
/* NULL without memory. */
struct query_figures *rows_at(struct answer_rows *rows, uint32_t stack_id);
/* Sorts, leaves out empty rows, adds up; the rows move to the answer. */
TM_MUST_CHECK int answer_rows_finish(struct answer_rows *rows, struct query_answer *answer);
void rows_done(struct answer_rows *rows);

/* Both ways to an answer: ret has the range and is filled further. */
TM_MUST_CHECK int ask_by_scan(struct query_section *section, const struct query *query,
			      const struct query_range *range, struct query_answer *ret,
			      struct tm_error *err);

/* Where blocks are culled: what threads did with them, into the answer's threads. */
TM_MUST_CHECK int add_culled_threads(struct query_section *section, const struct query_range *range,
				     struct query_answer *answer, struct tm_error *err);
TM_MUST_CHECK int ask_by_slices(struct edges *edges, const struct query *query,
				const struct query_range *range, struct query_answer *ret,
				struct tm_error *err);

int query_tell_progress(const struct query_progress *progress, uint64_t done, uint64_t total,
			struct tm_error *err);

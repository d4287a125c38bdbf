/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every question once more, answered from a list of heap blocks with loops, as
 * docs/figures.md and docs/filters.md say: slow and obvious. It shares no code
 * with the model.
 */
#pragma once

#include "trace/records.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QREF_STACKS = 64, QREF_THREADS = 8, QREF_EVENTS = 20000, QREF_TERMS = 6 };

/* What the program did, in order, as it was recorded. */
struct qref_block {
	uint64_t size_bytes, address, birth, birth_us; /* birth: ordinal of the event */
	uint64_t end, end_us;                          /* UINT64_MAX: unfreed */
	uint32_t stack_id, thread_id, free_thread_id;
	uint8_t api;
	bool temporary, unseen;
	struct { /* failed reallocs: it was away from event `from` to event `to` */
		uint64_t from, to, from_us;
		uint32_t thread_id;
	} away[16];
	unsigned away_count;
};

struct qref_run {
	struct trace_event *events; /* as recorded, with block ids */
	uint64_t event_count;
	struct qref_block *blocks; /* by block_id */
	uint64_t block_count;
	uint64_t duration_us;
};
struct qref_run *qref_new(void);
void qref_free(struct qref_run *run);
/* Call for each event, in order; block ids and ops are those of the recording. */
void qref_add(struct qref_run *run, const struct trace_event *event);

/* ---- filters ---- */

enum qref_what {
	QREF_FUNCTION, /* number: function name "f<number>" anywhere in the stack */
	QREF_SITE,
	QREF_FILE,
	QREF_MODULE,
	QREF_THREAD,
	QREF_SIZE, /* low..high */
	QREF_LIFETIME,
	QREF_AGE,
	QREF_TIME,
	QREF_ADDRESS,
	QREF_API,
	QREF_TEMPORARY,
	QREF_UNFREED,
	QREF_FOREIGN,
	QREF_WHAT_COUNT,
};
/* A filter: terms from left to right, each joined to what stands before it. */
struct qref_term {
	enum qref_what what;
	uint64_t number, low, high; /* times in microseconds; high UINT64_MAX: open */
	bool negated, is_or;
};
struct qref_filter {
	struct qref_term terms[QREF_TERMS];
	size_t count; /* 0: all */
};
/* Names that the test gives to frames: each stack has one frame, its parent is stack_id - 1. */
unsigned qref_function_of(uint32_t stack_id);
unsigned qref_file_of(uint32_t stack_id);
unsigned qref_module_of(uint32_t stack_id);
bool qref_is_allocator(uint32_t stack_id);
uint32_t qref_parent_of(uint32_t stack_id);
/* The filter as text; out has room for 1024. */
void qref_filter_text(const struct qref_filter *filter, char *out);

/* ---- answers ---- */

struct qref_figures {
	uint64_t allocations, allocated_bytes, frees, freed_bytes, temporary, failed;
	uint64_t start_blocks, start_bytes, end_blocks, end_bytes, kept_blocks, kept_bytes;
	uint64_t peak_blocks, peak_bytes;
};
struct qref_thread {
	uint64_t allocations, allocated_bytes;
	int64_t frees, freed_bytes, foreign; /* cut at 0 in the end */
	uint64_t temporary, end_blocks, end_bytes;
};
struct qref_answer {
	uint64_t first, end; /* ordinals of the events in the range */
	struct qref_figures stacks[QREF_STACKS], totals;
	int64_t frees[QREF_STACKS], freed_bytes[QREF_STACKS]; /* before they are cut at 0 */
	int64_t sizes[QREF_STACKS][TRACE_BUCKETS], lives[QREF_STACKS][TRACE_BUCKETS];
	struct qref_thread threads[QREF_THREADS];
	uint64_t peak_bytes, peak_blocks, peak_us;
};
void qref_ask(const struct qref_run *run, uint64_t from_us, uint64_t to_us,
	      const struct qref_filter *filter, struct qref_answer *ret);
/* Whether the filter chooses this block in a question with that end. */
bool qref_chooses(const struct qref_run *run, const struct qref_filter *filter,
		  const struct qref_block *block, uint64_t to_us, uint64_t end);
bool qref_lives_at(const struct qref_block *block, uint64_t ordinal);

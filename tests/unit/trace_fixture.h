/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A made-up heap for the tests of the trace file: events of all kinds in an
 * order that could be, records of all kinds, and comparisons with what a reader
 * gives back. Everything follows from the seed.
 */
#pragma once

#include "trace/trace.h"

#include <stddef.h>
#include <stdint.h>

enum { FIXTURE_STACKS = 300, FIXTURE_THREADS = 5, FIXTURE_MODULES = 4, FIXTURE_LIVE = 3000 };

struct fixture {
	uint64_t random, time_ns, next_block_id, event_count;
	uint64_t step_ns; /* between events, on average */
	struct trace_event live[FIXTURE_LIVE];
	size_t live_count;
	struct trace_event pending; /* a realloc that began */
	bool realloc_open, free_stacks;
};

void fixture_init(struct fixture *f, uint64_t seed);
uint64_t fixture_random(struct fixture *f, uint64_t below);
/* The next events of the heap. */
void fixture_events(struct fixture *f, struct trace_event *events, size_t count);

/* Record number i of each kind. */
struct trace_stack fixture_stack(uint32_t stack_id);
struct trace_module fixture_module(uint32_t module_id);
struct trace_thread fixture_thread(uint32_t thread_id);
struct trace_sample fixture_sample(uint64_t number);
struct trace_map_event fixture_map(uint64_t number);
struct trace_symbol fixture_symbol(uint64_t number);
struct trace_meta fixture_meta(void);
struct trace_end fixture_end(void);

/* A new file of this name in the test's folder; the name is in *ret_path. */
int fixture_file(const char *name, char ret_path[256]);
/* Begin a section and write all stacks, modules and threads. */
void fixture_begin(struct trace_writer *w, bool free_stacks);

/* Does the reader's event say what was written? What a reader cannot know of a free is ignored. */
bool fixture_same(const struct trace_event *written, const struct trace_event *got, bool addresses);
/* Compare all events of the selected section with those; the number that agreed. */
size_t fixture_compare(struct trace_reader *r, const struct trace_event *events, size_t count,
		       bool addresses);
/* Check stacks, modules, threads, meta data and end as fixture_begin() and an end wrote them. */
void fixture_check_records(struct trace_reader *r);

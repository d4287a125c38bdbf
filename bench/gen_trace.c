/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a trace of a made-up program, as large as wanted, for the figures of
 * analysis: most blocks die young, some live for a while, a few for ever; few
 * stacks do most of the work; several threads, reallocs, phases.
 *
 *	gen_trace FILE EVENTS [STACKS [LIVE]]
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "trace/trace.h"

enum { BATCH = 4096, THREADS = 4, DEPTH = 12, YOUNG = 64, FUNCTIONS = 4000 };

struct slot { /* a live block */
	uint64_t address;
	uint32_t size_bytes, thread_id;
};

struct maker {
	uint64_t random, time_ns;
	uint32_t stacks; /* leaves that allocate */
	struct slot *live;
	size_t live_count, live_room;
	struct slot young[THREADS][YOUNG]; /* each thread's own, freed soon */
	size_t young_count[THREADS];
	uint64_t next_address;
	uint64_t *spare; /* addresses that were freed */
	size_t spare_count, spare_room;
	struct model *model;
	struct trace_writer *writer;
	struct trace_event batch[BATCH];
	size_t count;
};

static void check(int rc, const struct tm_error *err)
{
	if (rc) {
		fprintf(stderr, "gen_trace: %s\n", err->code ? err->text : strerror(-rc));
		exit(1);
	}
}

static uint64_t next_random(struct maker *m)
{
	uint64_t x = m->random;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return m->random = x;
}

/* Small numbers are likelier: few stacks do most. */
static uint64_t skewed(struct maker *m, uint64_t below)
{
	uint64_t random = next_random(m);
	double share = (double)(random >> 12) / (double)(1ull << 52);
	return (uint64_t)(share * share * share * (double)below);
}

static void flush(struct maker *m)
{
	struct tm_error err = {0};
	struct trace_slice slice;
	check(model_apply(m->model, m->batch, m->count, &err), &err);
	check(trace_writer_events(m->writer, m->batch, m->count), &err);
	if (model_slice_due(m->model)) {
		check(model_slice_take(m->model, &slice, &err), &err);
		check(trace_writer_slice(m->writer, &slice), &err);
	}
	m->count = 0;
}

static struct trace_event *add(struct maker *m, uint32_t thread_id, uint8_t op)
{
	if (m->count == BATCH)
		flush(m);
	m->time_ns += 20 + next_random(m) % 40;
	struct trace_event *event = &m->batch[m->count++];
	*event = (struct trace_event){.time_ns = m->time_ns, .thread_id = thread_id, .op = op};
	return event;
}

static uint64_t new_address(struct maker *m)
{
	if (m->spare_count > 0 && next_random(m) % 8)
		return m->spare[--m->spare_count];
	return m->next_address += 64;
}

static struct slot allocate(struct maker *m, uint32_t thread_id, uint8_t op, uint64_t phase)
{
	struct trace_event *event = add(m, thread_id, op);
	uint64_t leaf = (skewed(m, m->stacks) + phase * 37) % m->stacks;
	/* Most stacks ask for one size, some for any. */
	uint32_t size_bytes = leaf % 5 ? 16 + (uint32_t)(leaf * 2654435761u % 40) * 8
				       : (uint32_t)(1 + skewed(m, 20000));
	event->stack_id = (uint32_t)(DEPTH + leaf + 1);
	event->size_bytes = size_bytes;
	event->address = new_address(m);
	return (struct slot){event->address, size_bytes, thread_id};
}

static void release(struct maker *m, uint32_t thread_id, uint64_t address, uint8_t op)
{
	add(m, thread_id, op)->address = address;
	if (m->spare_count < m->spare_room)
		m->spare[m->spare_count++] = address;
}

static void keep_some(struct maker *m, struct slot slot)
{
	if (m->live_count < m->live_room) {
		m->live[m->live_count++] = slot;
		return;
	}
	size_t at = next_random(m) % m->live_count;
	release(m, slot.thread_id, m->live[at].address, TRACE_FREE);
	m->live[at] = slot;
}

/* One step of one thread: a new block, and mostly the end of an older one. */
static void step(struct maker *m, uint64_t phase)
{
	uint32_t thread_id = (uint32_t)(next_random(m) % 64 < 40 ? 0 : next_random(m) % THREADS);
	size_t *young = &m->young_count[thread_id];
	uint64_t dice = next_random(m) % 100;
	if (dice < 12) {
		keep_some(m, allocate(m, thread_id, TRACE_ALLOC, phase));
	} else if (dice < 15 && m->live_count > 0) {
		size_t at = next_random(m) % m->live_count;
		release(m, thread_id, m->live[at].address, TRACE_REALLOC_FREE);
		m->live[at] = allocate(m, thread_id, TRACE_REALLOC_ALLOC, phase);
	} else if (*young < YOUNG && (dice < 58 || *young == 0)) {
		m->young[thread_id][(*young)++] = allocate(m, thread_id, TRACE_ALLOC, phase);
	} else {
		release(m, thread_id, m->young[thread_id][--*young].address, TRACE_FREE);
	}
}

static void write_tables(struct maker *m)
{
	struct tm_error err = {0};
	static const char *const units[] = {"parse", "render", "index", "cache", "net", "codec"};
	check(trace_writer_begin(m->writer, &(struct trace_meta){.tool_version = "",
								 .program = "/usr/bin/made-up",
								 .command = "made-up",
								 .host = "",
								 .mode = "exact",
								 .source = "run",
								 .clock = "tsc",
								 .page_bytes = 4096,
								 .addresses = true}),
	      &err);
	check(trace_writer_module(m->writer, &(struct trace_module){.module_id = 1,
								    .start = 0x400000,
								    .end = 0x80000000,
								    .unmapped_ns = UINT64_MAX,
								    .path = "/usr/bin/made-up"}),
	      &err);
	for (uint32_t i = 0; i < DEPTH + m->stacks; i++) {
		/* A spine of callers, then leaves that hang anywhere on it or on older leaves. */
		uint32_t parent = i < DEPTH ? i : 1 + (uint32_t)(i * 2654435761u % i);
		struct trace_stack stack = {.parent_id = parent,
					    .module_id = 1,
					    .pc = 0x400010 + (i * 7919ull % FUNCTIONS) * 256};
		check(trace_writer_stacks(m->writer, &stack, 1), &err);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		struct trace_thread thread = {
			.thread_id = i, .tid = 1000 + i, .end_ns = UINT64_MAX};
		snprintf(thread.name, sizeof thread.name, i ? "worker-%u" : "main", i);
		check(trace_writer_thread(m->writer, &thread), &err);
	}
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		char name[64], file[64];
		snprintf(name, sizeof name, "%s_step_%u", units[i % 6], i);
		snprintf(file, sizeof file, "src/%s/%u.c", units[i % 6], i % 90);
		struct trace_symbol symbol = {.module_id = 1,
					      .address = 0x40000f + i * 256ull,
					      .function = name,
					      .file = file,
					      .line = i,
					      .source = TRACE_SYM_DWARF};
		check(trace_writer_symbols(m->writer, &symbol, 1), &err);
	}
}

static void run(struct maker *m, uint64_t events)
{
	struct tm_error err = {0};
	uint64_t next_sample_ns = 0;
	for (uint64_t done = 0; done < events;) {
		size_t before = m->count;
		step(m, done * 16 / events);
		done += m->count > before ? m->count - before : 1;
		if (m->time_ns >= next_sample_ns) {
			struct trace_sample sample = {.time_ns = m->time_ns,
						      .rss_bytes = 50000000 + m->live_count * 200};
			model_apply_sample(m->model, &sample);
			check(trace_writer_sample(m->writer, &sample), &err);
			next_sample_ns += 100000000;
		}
	}
	flush(m);
}

static void finish(struct maker *m)
{
	struct tm_error err = {0};
	struct trace_slice slice;
	check(model_slice_take(m->model, &slice, &err), &err);
	check(trace_writer_slice(m->writer, &slice), &err);
	check(trace_writer_end(m->writer, &(struct trace_end){.cause = TRACE_END_EXIT,
							      .duration_ns = m->time_ns}),
	      &err);
	check(trace_writer_close(m->writer, &err), &err);
}

int main(int argc, char **argv)
{
	struct tm_error err = {0};
	if (argc < 3) {
		fprintf(stderr, "usage: gen_trace FILE EVENTS [STACKS [LIVE]]\n");
		return 2;
	}
	static struct maker m = {.random = 88172645463325252ull, .next_address = 0x7f1200000010};
	uint64_t events = strtoull(argv[2], NULL, 10);
	m.stacks = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 5000;
	m.live_room = argc > 4 ? strtoul(argv[4], NULL, 10) : 200000;
	m.spare_room = 2 * m.live_room + 1000;
	m.live = calloc(m.live_room, sizeof *m.live);
	m.spare = calloc(m.spare_room, sizeof *m.spare);
	int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (!m.stacks || !m.live || !m.spare || fd < 0) {
		perror("gen_trace");
		return 1;
	}
	check(model_new(NULL, &m.model, &err), &err);
	struct trace_writer_options options = {.addresses = true};
	check(trace_writer_open(fd, &options, &m.writer, &err), &err);
	write_tables(&m);
	run(&m, events);
	finish(&m);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model's definitions once more, with lists and loops instead of tables and
 * tricks: slow and obvious. Tests compare the real model with it.
 */
#pragma once

#include "trace/records.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	REF_STACKS = 64,
	REF_THREADS = 8,
	REF_BLOCKS = 40000,
	REF_SLICES = 400,
};

struct ref_block {
	uint64_t address, size_bytes, birth_ns;
	uint32_t stack_id, thread_id, birth_slice;
	bool live;
};

struct ref_thread {
	bool last_was_birth; /* its last heap event allocated last_block */
	uint64_t last_block;
	bool pending; /* its last realloc has ended pending_block and not come back */
	uint64_t pending_block;
	uint64_t pending_ns;
};

struct ref_stack {
	uint64_t births, birth_bytes, deaths, death_bytes, temporary, failed;
	uint64_t live_blocks, live_bytes, peak_blocks, peak_bytes;
};

/* What happened to one stack in one slice. */
struct ref_row {
	bool touched;
	uint64_t births, birth_bytes, temporary, failed;
	uint64_t sizes[TRACE_BUCKETS], lives[TRACE_BUCKETS];
	uint64_t death_count[REF_SLICES], death_bytes[REF_SLICES]; /* by birth slice */
};

struct ref_model {
	struct ref_block *blocks;
	uint64_t block_count;
	struct ref_thread threads[REF_THREADS];
	struct ref_stack stacks[REF_STACKS];
	struct ref_row rows[REF_STACKS]; /* of the open slice */
	uint32_t slice_id;
	bool peak_rose;
	uint64_t events, temporary, failed, freed_unseen, freed_older;
	uint64_t peak_bytes, peak_blocks, peak_ns, now_ns;
	uint64_t min_bytes, max_bytes; /* of the open slice */
};

struct ref_model *ref_new(void);
void ref_free(struct ref_model *ref);
/* The event as it comes in; `ret` as it should come out. */
void ref_apply(struct ref_model *ref, const struct trace_event *in, struct trace_event *ret);
void ref_next_slice(struct ref_model *ref);
uint64_t ref_live_bytes(const struct ref_model *ref);
uint64_t ref_live_blocks(const struct ref_model *ref);
bool ref_is_live(const struct ref_model *ref, uint64_t address);

/* A reproducible stream of events that does everything a program can do, and some that it cannot.
 */
#define REF_FIRST_ADDRESS 0x7f0000001000ull
struct ref_source {
	uint64_t random;
	uint64_t time_ns;
	uint32_t addresses;  /* how many different ones */
	bool honest;         /* a block that begins on a live address is preceded by FREE_UNSEEN */
	bool plentiful;      /* no realloc fails */
	uint32_t in_realloc; /* bit per thread */
};
uint64_t ref_random(struct ref_source *source, uint64_t below);
/* One event (or two: then *ret[1] too). Tells how many. */
size_t ref_make(struct ref_source *source, const struct ref_model *ref, struct trace_event ret[2]);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of a week, invented: blocks of three ages from many stacks, by some
 * threads, and beside it plain counting of what a profiler must find. Knows
 * nothing of the collector.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { ORACLE_STACKS = 2000, ORACLE_THREADS = 4 };

struct oracle_event {
	bool is_free;
	uint32_t thread, stack, bytes; /* stack, from 0, and bytes: of an allocation */
	uint64_t address;
};

struct oracle_figures {
	uint64_t allocations, frees, allocated_bytes, freed_bytes, temporary;
	uint64_t live_blocks, live_bytes, peak_bytes;
};

struct oracle;

/* NULL: no memory. */
struct oracle *oracle_new(uint64_t seed);
struct oracle *oracle_free(struct oracle *oracle);
/* The next one, counted. */
void oracle_next(struct oracle *oracle, struct oracle_event *ret);

const struct oracle_figures *oracle_all(const struct oracle *oracle);
/* Of one stack; its share of the peak is not counted: 0. */
const struct oracle_figures *oracle_stack(const struct oracle *oracle, uint32_t stack);

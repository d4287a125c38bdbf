/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which addresses are those of sampled blocks, in shared memory: counters by a
 * hash of the address, and behind them the addresses themselves as far as there
 * is room. A free whose counter is 0 is of no sampled block: one look. Mostly it
 * is even one at a few lines that stay in the processor's first cache: nothing is
 * counted in the whole region.
 *
 *	gate       a line               may hooks take the short way at all?
 *	regions    2^12 bytes           one per page of 4096 bytes, and what is 16 MiB away
 *	counters   2^20 bytes           one per hash
 *	known      2^13 lines of 8      addresses; a line for 128 neighbouring hashes
 *
 *   agent       counts a block when it has sampled it, before the program has it,
 *               and writes its address into a free place of the line, if there
 *               is one; takes both back when the block ends
 *   collector   counts blocks that were recorded before anything was sampled; they
 *               have no place in a line ("outside"), nor has what found none. It
 *               takes their count back when it has seen their end
 *
 * So a counter never says less than there is, nor does that of its region, which is
 * counted first and taken back last. Where a counter says more than the line has,
 * the end may be that of a block outside: the collector knows. At its highest
 * value a counter stays, and what it counts stays counted in its region.
 * Freestanding-safe.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	WIRE_FILTER_LOG2 = 20,
	WIRE_FILTER_COUNTERS = 1 << WIRE_FILTER_LOG2,
	WIRE_FILTER_REGION_LOG2 = 12, /* of the bytes in one */
	WIRE_FILTER_REGIONS = 1 << 12,
	WIRE_FILTER_FULL = 255,
	WIRE_FILTER_LINE = 8,
	WIRE_FILTER_LINE_LOG2 = 7, /* of the hashes that share one */
	WIRE_FILTER_LINES = WIRE_FILTER_COUNTERS >> WIRE_FILTER_LINE_LOG2,
	WIRE_FILTER_HEAD = 64,
	WIRE_FILTER_BYTES = 4096 + WIRE_FILTER_REGIONS + WIRE_FILTER_COUNTERS +
			    WIRE_FILTER_LINES * WIRE_FILTER_LINE * 8,
};

struct wire_filter {
	/* Not 0 in state SAMPLED only: equal to control.sampling, and hooks may take the short way.
	 * Is 0 before the state becomes another one. Here since all of them look here. */
	_Atomic uint32_t gate;
	uint8_t pad[WIRE_FILTER_HEAD - 4];
	_Atomic uint8_t regions[WIRE_FILTER_REGIONS];
	_Atomic uint8_t counters[WIRE_FILTER_COUNTERS];
	_Atomic uint64_t known[WIRE_FILTER_LINES][WIRE_FILTER_LINE];
	uint8_t rest[4096 - WIRE_FILTER_HEAD]; /* whole pages */
};
_Static_assert(sizeof(struct wire_filter) == WIRE_FILTER_BYTES, "filter layout");

/* Neighbours in memory are neighbours here, within 16 MiB: what a program frees is often near. */
static inline uint32_t wire_filter_index(uint64_t address)
{
	uint64_t step = address >> 4;
	return (uint32_t)(step ^ (step >> WIRE_FILTER_LOG2) * 0x9e3779b1u) &
	       (WIRE_FILTER_COUNTERS - 1);
}

static inline uint32_t wire_filter_region(uint64_t address)
{
	return (uint32_t)(address >> WIRE_FILTER_REGION_LOG2) & (WIRE_FILTER_REGIONS - 1);
}

/* 0: no sampled block is there. */
static inline uint8_t wire_filter_get(struct wire_filter *filter, uint64_t address)
{
	if (!atomic_load_explicit(&filter->regions[wire_filter_region(address)],
				  memory_order_relaxed))
		return 0;
	return atomic_load_explicit(&filter->counters[wire_filter_index(address)],
				    memory_order_relaxed);
}

static inline void wire_filter_count(_Atomic uint8_t *counter)
{
	uint8_t count = atomic_load_explicit(counter, memory_order_relaxed);
	while (count != WIRE_FILTER_FULL &&
	       !atomic_compare_exchange_weak_explicit(counter, &count, (uint8_t)(count + 1),
						      memory_order_relaxed, memory_order_relaxed))
		;
}

/* False: it stays as it is. */
static inline bool wire_filter_uncount(_Atomic uint8_t *counter)
{
	uint8_t count = atomic_load_explicit(counter, memory_order_relaxed);
	while (count != WIRE_FILTER_FULL && count != 0)
		if (atomic_compare_exchange_weak_explicit(counter, &count, (uint8_t)(count - 1),
							  memory_order_relaxed,
							  memory_order_relaxed))
			return true;
	return false;
}

/* Counts a block outside. */
static inline void wire_filter_add(struct wire_filter *filter, uint64_t address)
{
	wire_filter_count(&filter->regions[wire_filter_region(address)]);
	wire_filter_count(&filter->counters[wire_filter_index(address)]);
}

static inline void wire_filter_drop(struct wire_filter *filter, uint64_t address)
{
	if (wire_filter_uncount(&filter->counters[wire_filter_index(address)]))
		wire_filter_uncount(&filter->regions[wire_filter_region(address)]);
}

/* Counts a block, in its line if there is a place. */
static inline void wire_filter_put(struct wire_filter *filter, uint64_t address)
{
	_Atomic uint64_t *line = filter->known[wire_filter_index(address) >> WIRE_FILTER_LINE_LOG2];
	wire_filter_add(filter, address); /* first: never less than there is */
	for (int i = 0; i < WIRE_FILTER_LINE; i++) {
		uint64_t none = 0;
		if (!atomic_load_explicit(&line[i], memory_order_relaxed) &&
		    atomic_compare_exchange_strong(&line[i], &none, address))
			return;
	}
}

/* Takes a block out of its line; false: it is not there. */
static inline bool wire_filter_take(struct wire_filter *filter, uint64_t address)
{
	_Atomic uint64_t *line = filter->known[wire_filter_index(address) >> WIRE_FILTER_LINE_LOG2];
	for (int i = 0; i < WIRE_FILTER_LINE; i++) {
		uint64_t found = address;
		if (atomic_load_explicit(&line[i], memory_order_relaxed) == address &&
		    atomic_compare_exchange_strong(&line[i], &found, 0)) {
			wire_filter_drop(filter, address);
			return true;
		}
	}
	return false;
}

/*
 * The end of a block that was found in its line. Where another thread has had the address since (a
 * realloc ends after the fact) the two may have taken each other's entry: one is then left to
 * count.
 */
static inline void wire_filter_remove(struct wire_filter *filter, uint64_t address)
{
	if (!wire_filter_take(filter, address))
		wire_filter_drop(filter, address);
}

/* Is it in its line? And if not, may it be outside? */
enum wire_filter_answer { WIRE_FILTER_NO, WIRE_FILTER_KNOWN, WIRE_FILTER_OUTSIDE };
static inline enum wire_filter_answer wire_filter_find(struct wire_filter *filter, uint64_t address)
{
	uint32_t index = wire_filter_index(address);
	uint8_t count = atomic_load_explicit(&filter->counters[index], memory_order_acquire);
	unsigned in_line = 0;
	if (!count)
		return WIRE_FILTER_NO;
	for (int i = 0; i < WIRE_FILTER_LINE; i++) {
		uint64_t known = atomic_load_explicit(
			&filter->known[index >> WIRE_FILTER_LINE_LOG2][i], memory_order_acquire);
		if (known == address)
			return WIRE_FILTER_KNOWN;
		in_line += known && wire_filter_index(known) == index;
	}
	/* Others come and go meanwhile: better one look too many at the collector. */
	uint8_t after = atomic_load_explicit(&filter->counters[index], memory_order_relaxed);
	return count > in_line || after != count ? WIRE_FILTER_OUTSIDE : WIRE_FILTER_NO;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a golden trace tells, simple enough to be counted by hand.
 *
 * Section 0 (ended by exec): one block of 100 bytes, not freed.
 * Section 1: block i of 0..999 has 16 * (i % 10 + 1) bytes, stack 1 + i % 12,
 * thread i % 3, and begins at i us; after each block with an odd number the one
 * before it is freed. Then, at 1 ms each: block 1 is reallocated to 5000 bytes
 * (block 1000), a realloc of block 3 to 2^40 bytes fails, an aligned allocation
 * of 2^41 bytes fails, block 5 is freed unseen, and a block that was never seen
 * is freed.
 */
#pragma once

#include "trace/trace.h"

enum {
	SCENARIO_BLOCKS = 1000,
	SCENARIO_STACKS = 12,
	SCENARIO_THREADS = 3,
	SCENARIO_EVENTS = SCENARIO_BLOCKS + SCENARIO_BLOCKS / 2 + 7,
};

/* Write both sections. */
void scenario_write(struct trace_writer *w);

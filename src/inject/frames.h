/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a thread will come back to after its signal handlers: their frames on its
 * stacks hold the interrupted pc. One that lies inside bytes that are about to be
 * replaced is moved, as the pc of a running thread is.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Where a thread at pc must go on; pc itself: no change. */
typedef uint64_t (*frames_move_fn)(void *ctx, uint64_t pc);

struct frames_scan {
	int memory_fd;
	uint64_t low, high; /* no pc outside of it is to be moved */
	frames_move_fn move;
	void *ctx;
};

/*
 * stack: where to begin; deep: signals are blocked, so a handler probably runs.
 * Returns how many were moved, or -errno.
 */
int frames_repair(const struct frames_scan *scan, uint64_t stack, int deep);

/*
 * Looks at words of a stack. Returns the index of the next saved pc of a signal
 * frame at or after `from`, or count: what looks like one is [sp][pc][flags][cs].
 */
size_t frames_find(const uint64_t *words, size_t count, size_t from);

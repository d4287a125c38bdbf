/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heaps made by chance, written as whole recordings and as pieces of one, as
 * docs/trace-format.md says that a rotated recording is cut.
 */
#pragma once

#include "trace/trace.h"

#include <stddef.h>
#include <stdint.h>

enum { MERGE_EVENTS = 3000, MERGE_PIECES = 5 };

struct file {
	char path[64];
	int fd;
};
struct file make_file(void);

/* Events with the numbers of their blocks. */
struct heap {
	struct trace_event events[MERGE_EVENTS + 2];
	size_t count;
};
/* The caller frees it. */
struct heap *make_heap(uint64_t seed);

/* Stack i has pc 0x1000 + i. */
struct trace_meta plain_meta(void);
void write_recording(const struct heap *heap, int fd, const struct trace_meta *meta);
void make_pieces(const struct heap *heap, uint64_t seed, struct file files[MERGE_PIECES]);

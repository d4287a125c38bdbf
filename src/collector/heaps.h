/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named heaps (include/tidemark.h), where they need more than their events: a
 * heap that drops its blocks all at once, and memory that one heap has from
 * another. Made when a program first does either; the drain thread's.
 *
 *   discard  the heap's live blocks end, one free each. To find them they are
 *            kept by page, from the first discard of the heap on.
 *   grow     the parent's block ends: its pieces are counted instead. When the
 *            parent gets it back, that free is of a block that has ended, and is
 *            swallowed; what is left of the pieces ends with it.
 */
#pragma once

#include "trace/records.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct feed;
struct heaps;

struct heaps *heaps_free(struct heaps *heaps);

/* Who says it, and when. */
struct heaps_caller {
	uint64_t time_ns;
	uint32_t thread_id;
};

/* key: of the heap, as in its blocks' addresses. bytes 0: all of it. */
void heaps_discard(struct feed *feed, struct heaps_caller caller, uint64_t key, uint64_t start,
		   uint64_t bytes);
void heaps_grow(struct feed *feed, struct heaps_caller caller, const uint64_t keys[2],
		uint64_t start, uint64_t bytes);
/* A mapping is about to end. */
void heaps_unmapped(struct feed *feed, struct heaps_caller caller, uint64_t start, uint64_t bytes);

/* Applies events as feed_apply() does, minding what was said above. */
void heaps_apply(struct feed *feed, struct trace_event *events, size_t count);

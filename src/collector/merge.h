/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges the streams by stamp into one order and decodes the events on the way:
 * the order made here is *the* order of the section. A k-way merge over a heap
 * of cursors that takes runs (all events up to the next stream's stamp) at a
 * time; one stream alone is a single run.
 */
#pragma once

#include "collector/cursor.h"
#include "collector/feed.h"

struct merge {
	struct cursors *cursors;
	struct feed *feed;
	struct extra *extra;  /* takes the events that are not of the heap */
	struct cursor **heap; /* cursors with unread words, smallest stamp first */
	uint32_t heap_count;
	uint32_t heap_room;
};

TM_MUST_CHECK int merge_init(struct merge *merge, struct cursors *cursors, struct feed *feed,
			     struct extra *extra);
void merge_done(struct merge *merge);
/*
 * Releases every event of the first snapshot in stamp order, and those of the
 * second that must come before them. first_words: what cursors_snapshot() said.
 */
void merge_release(struct merge *merge, uint64_t first_words);

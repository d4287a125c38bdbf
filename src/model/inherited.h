/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks that a part of a trace begins with: those that live then, and those
 * that a realloc under way has ended and may give back. Each gets a new number,
 * in an order that leaves every thread as it was (see trim.h: temporary).
 */
#pragma once

#include "model/model.h"

struct inherited_block {
	uint64_t old_id, new_id;
	uint64_t address, size_bytes;
	uint32_t stack_id, thread_id;
	uint32_t realloc_thread; /* with pending: which thread is reallocating it */
	uint8_t api, align_log2;
	bool pending; /* ended by the begin half of a realloc, whose end is in the part */
	bool first;   /* its thread frees it first of all, and did not allocate it last */
	bool reset;   /* and has no other */
};

struct inherited {
	struct inherited_block *blocks; /* by old_id */
	size_t count, room;
	uint64_t bytes; /* without pending ones */
	size_t pending_count;
};

/* All that live in the model, or are pending in its threads. -ENOMEM. */
TM_MUST_CHECK int inherited_gather(struct inherited *set, const struct model *m,
				   uint32_t thread_count);
void inherited_done(struct inherited *set);
/* NULL if it is none of them. O(log count). */
struct inherited_block *inherited_find(const struct inherited *set, uint64_t old_id);
/* Gives out the new numbers, from 0. thread_count as above. -ENOMEM. */
TM_MUST_CHECK int inherited_number(struct inherited *set, uint32_t thread_count);
/* How many blocks those that live stand for, by their new numbers; of which interval the largest
 * was chosen, 0 if none was sampled. */
uint64_t inherited_blocks(const struct inherited *set);
uint64_t inherited_interval(const struct inherited *set);
/* By new number: index -> place in blocks[]. The caller frees it. NULL: no memory. */
uint32_t *inherited_order(const struct inherited *set);

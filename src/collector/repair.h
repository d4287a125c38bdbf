/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order by address. The processor may read the time-stamp counter before the
 * instructions that wait for another processor's cache line are done, so a
 * stamp can be some hundred nanoseconds early when a block changes hands:
 * an allocation seems to come before the free of the block that was there, or
 * a free before the allocation in another thread. Every such event must wait
 * for the one that makes it possible, and with it all later events of its
 * thread, so that each thread's own order stays.
 *
 * Works on a batch before it is applied to the model. One thread alone is never
 * out of order.
 */
#pragma once

#include "model/model.h"
#include "trace/records.h"

#include <stddef.h>

enum {
	REPAIR_EVENTS_MAX = 2048,
	REPAIR_WINDOW_NS = 2000, /* generous: 300 ns were seen */
};

struct repair;

/* NULL when there is no memory. */
struct repair *repair_new(void);
struct repair *repair_free(struct repair *repair);

/*
 * `strangers`: ends of unknown blocks are nothing unusual, since not all blocks were recorded from
 * the beginning. An end at a place where nothing lives then waits for nothing: mostly it is that of
 * such a block, and who allocates there next has nothing to do with it.
 *
 * Puts events[0, count) right, count at most REPAIR_EVENTS_MAX. Times stay where
 * they are, so they never fall. What waits for an event that is not yet in the
 * batch is at its end afterwards, within the window. `model` has applied all
 * events before these. Returns how many had to wait. O(count).
 */
unsigned repair_order(struct repair *repair, const struct model *model, bool strangers,
		      struct trace_event *events, size_t count);
/* Ends that the last call left alone because of `strangers`, though skew would explain them, too.
 */
unsigned repair_doubtful(const struct repair *repair);

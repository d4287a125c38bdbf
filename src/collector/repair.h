/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order by address. The time-stamp counter may be read up to some 75 ns too
 * early or late across a hand-over between threads, so a block's free may be
 * stamped after the allocation that got the same address next, or its
 * allocation after its free. Two neighbouring events on one address, of
 * different threads and close in time, are exchanged when what is known of the
 * block before them shows that they contradict each other.
 *
 * Works on a batch before it is applied to the model; one thread alone is never
 * out of order.
 */
#pragma once

#include "model/model.h"
#include "trace/records.h"

#include <stddef.h>

enum {
	REPAIR_EVENTS_MAX = 1024,
	REPAIR_WINDOW_NS = 1000, /* generous: 75 ns were measured */
};

struct repair;

/* NULL when there is no memory. */
struct repair *repair_new(void);
struct repair *repair_free(struct repair *repair);

/*
 * Puts events[0, count) right, count at most REPAIR_EVENTS_MAX. Times stay where
 * they are, so they never fall. `model` has applied all events before these.
 * Returns how many were moved. O(count).
 */
unsigned repair_order(struct repair *repair, const struct model *model, struct trace_event *events,
		      size_t count);

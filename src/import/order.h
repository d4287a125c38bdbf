/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that were written about in the order of their time, put in order: so many
 * are held back, and the older half goes on when there is no more room. What comes
 * later than that is taken where it stands (events.h counts it).
 *
 * Of events with one time, a free goes before an allocation that got its address,
 * if both say whose block they are about (block_id: a number of the block, 0 = not
 * known).
 */
#pragma once

#include "import/events.h"

enum { ORDER_LOG2 = 18, ORDER_EVENTS = 1 << ORDER_LOG2 };

struct order;

/* Borrows events, to which all go. */
TM_MUST_CHECK int order_new(struct events *events, struct order **ret_order, struct tm_error *err);
struct order *order_free(struct order *order);
TM_MUST_CHECK int order_add(struct order *order, const struct trace_event *event,
			    struct tm_error *err);
/* All that are held back go on. */
TM_MUST_CHECK int order_finish(struct order *order, struct tm_error *err);

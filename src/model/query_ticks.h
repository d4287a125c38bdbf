/* SPDX-License-Identifier: Apache-2.0 */
/* The ticks of a range of events: from the store, or made. */
#pragma once

#include "model/query_edges.h"
#include "model/tick_store.h"

/* Not 0 stops with that value. */
typedef int (*tick_fn)(void *ctx, const struct ticks *ticks, const struct tick *tick);
/*
 * All ticks of events [first, end), in order, with or without rows; those of whole blocks of events
 * are kept. Several threads make them where many are missing. -ENOMEM, -EIO, -ECANCELED, fn's; what
 * is damaged is left out and counted in the edges.
 */
TM_MUST_CHECK int ticks_visit(struct edges *edges, uint64_t first, uint64_t end, bool rows,
			      const struct query_progress *progress, tick_fn fn, void *ctx);

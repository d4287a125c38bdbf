/* SPDX-License-Identifier: Apache-2.0 */
/* What only the single blocks of a range can tell of each stack: reads their events. */
#pragma once

#include "server/api_select.h"

struct held {
	uint64_t blocks;            /* that were live in the range, for however short */
	double byte_ns;             /* the sum of size times lifetime within the range */
	uint64_t first_ns, last_ns; /* allocations in the range; first > last: none */
};

/* By stack_id, as many as the facts have stacks; tm_free() it. -ENOMEM, -ECANCELED, -EIO. */
TM_MUST_CHECK int held_count(const struct call *call, const struct selection *selection,
			     struct held **ret_held, struct tm_error *err);

/*
 * The same as an answer whose figure allocated_bytes has byte-milliseconds, rounded up so
 * that what was held at all is seen: so every view can show it. query_answer_done() it.
 */
TM_MUST_CHECK int held_ask(const struct call *call, const struct selection *selection,
			   struct query_answer *ret_answer, struct tm_error *err);

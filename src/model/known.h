/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of a source that knows which block each of them is about, or that any of
 * several alike will do: the model then keeps no table of live blocks.
 */
#pragma once

#include "model/model.h"

/*
 * As model_apply(), for events that are all TRACE_ALLOC or TRACE_FREE, of one
 * thread. Of both, block_id, stack_id and size_bytes (below 2^48) are filled by the
 * caller; of a free also `address`, which is the number of the slice in which its
 * block was born, and TRACE_EVENT_TEMPORARY. Lifetimes are not counted. A model that
 * is fed so must be fed nothing else. -ENOMEM; -EOVERFLOW: sums beyond 2^62.
 */
TM_MUST_CHECK int model_apply_known(struct model *m, struct trace_event *events, size_t count,
				    struct tm_error *err);
/* Number of the open slice. */
uint32_t model_open_slice(const struct model *m);

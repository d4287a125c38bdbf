/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording in which not all blocks are known, because they are sampled
 * (docs/sampling.md): ends of unknown blocks are none of ours, and the filter is
 * told when a block that it knows has ended. One thread only, but for `on`.
 */
#pragma once

#include "base/error.h"
#include "trace/records.h"
#include "wire/pool.h"

#include <stdatomic.h>
#include <stddef.h>

struct model;

/* The realloc that a thread has begun. */
struct sampled_thread {
	uint64_t address; /* of the block, if the filter counts it outside; 0: none */
	bool unknown;     /* its begin was left out: the block is not known */
};

struct sampled {
	_Atomic bool on; /* blocks are, or were, sampled */
	struct sampled_thread *threads;
	uint32_t thread_room;
	uint64_t left_out;  /* ends of blocks that are not known */
	uint64_t strangers; /* of these: told although nobody asked the filter */
};

void sampled_done(struct sampled *sampled);
/*
 * Applies events in order, and moves those that are to be written to the front
 * of events[]; *ret_count says how many. -ENOMEM and what model_apply() returns.
 */
TM_MUST_CHECK int sampled_apply(struct sampled *sampled, struct model *model,
				const struct wire_map *map, struct trace_event *events,
				size_t count, size_t *ret_count, struct tm_error *err);
/* All blocks that live become known to the filter; unless `all`, those that were sampled are. */
TM_MUST_CHECK int sampled_fill(struct model *model, const struct wire_map *map, bool all);

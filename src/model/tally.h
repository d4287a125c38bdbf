/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All sums of a section anew from its events, without a live set: where a trace
 * has the ENDS beside its events, each block of events can be summed up alone,
 * by any thread, and the sums are added in order. What that leaves open is only
 * what each stack had at the peak; the one block of events of the peak tells.
 *
 * A trace that is damaged, without ENDS, or with failed reallocs is not for this
 * way: model_rebuild() goes through such a one event by event.
 */
#pragma once

#include "base/error.h"
#include "trace/trace.h"

#include <stdint.h>

struct tally_options {
	size_t blocks;       /* the first so many blocks of events */
	uint64_t rss_us;     /* what was live after the events up to this time is wanted */
	uint64_t most_bytes; /* no size is larger */
	unsigned threads;    /* 0 = one per core */
	uint64_t all_events; /* for progress */
	int (*progress)(void *ctx, uint64_t done_events, uint64_t all_events);
	void *ctx;
};

struct tally {
	struct trace_sum *sums; /* by stack_id, the share of the peak included; tm_free() */
	size_t count;
	uint64_t events, last_us;
	uint64_t peak_bytes, peak_blocks, peak_us;
	uint64_t freed_unseen, freed_older;
	bool rss_known; /* there were later events than rss_us */
	uint64_t rss_heap_bytes;
};

/* How many blocks of events from the first on have what it needs. From headers alone. */
size_t tally_reach(const struct trace_reader *r);
/* -ENOMEM, -EIO, -ECANCELED; -EBADMSG: this trace needs the other way. */
TM_MUST_CHECK int tally_run(struct trace_reader *r, const struct tally_options *options,
			    struct tally *ret, struct tm_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
/* Checking what a section's events mean, and that its aggregates say the same. */
#pragma once

#include "model/model.h"
#include "trace/verify.h"

struct model_verified {
	uint64_t events;          /* decoded and replayed */
	uint64_t slices;          /* compared with the events */
	uint64_t slices_unproved; /* not compared: events that they count are missing */
};

/*
 * The selected section: every block of events is decoded and replayed; time
 * must not fall, a block must live when it ends, headers must be true, and each
 * slice must say what the events say. Returns as trace_verify() does. O(events),
 * memory of the live blocks.
 */
TM_MUST_CHECK int model_verify(struct trace_reader *r, size_t section,
			       const struct trace_check *check, struct model_verified *ret,
			       struct tm_error *err);

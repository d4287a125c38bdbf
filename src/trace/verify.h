/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking a trace file: every block against its checksum and its place, every
 * table against what it refers to. Events and aggregates are checked by
 * model/verify.h, which knows what they must add up to.
 */
#pragma once

#include "base/error.h"
#include "trace/trace.h"

struct trace_problem {
	uint64_t offset; /* in the file; UINT64_MAX: of no one place */
	size_t section;
	char text[200]; /* what is wrong there, without file and offset */
};

struct trace_check {
	/* Each problem as it is found. Not 0 stops, with that value. */
	int (*problem)(void *ctx, const struct trace_problem *problem);
	/* Now and then; may be NULL. Bytes or events. Not 0 stops, with that value. */
	int (*progress)(void *ctx, uint64_t done, uint64_t all);
	void *ctx;
};

/* Tell of a problem. The callback's answer. */
int trace_check_tell(const struct trace_check *check, size_t section, uint64_t offset,
		     const char *format, ...) __attribute__((format(printf, 4, 5)));

/*
 * All of the file but what events and aggregates mean. Selects sections; the
 * last is selected afterwards. 0 also when problems were told; -errno when it
 * cannot be read at all; else what a callback returned. One block in memory at
 * a time, and the tables.
 */
TM_MUST_CHECK int trace_verify(struct trace_reader *r, const struct trace_check *check,
			       struct tm_error *err);

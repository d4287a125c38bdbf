/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace that can be sent to a stranger: what names something of the program,
 * its people and its machine is replaced by words (words.h). docs/anonymize.md
 * lists what becomes of each field, and what a stranger can still learn.
 *
 * A frame's kind (allocator, runtime, ...) is found before its name is gone and
 * stored with it, so that the views fold and choose as they did.
 */
#pragma once

#include "base/error.h"
#include "model/words.h"
#include "trace/trace.h"

struct anonymize_options {
	struct words *words; /* the caller's; has all that was replaced afterwards */
	/* Now and then, bytes; may be NULL. Not 0 stops, with that value. */
	int (*progress)(void *ctx, uint64_t done, uint64_t all);
	void *ctx;
};

/* Writes the copy to fd (a new, empty file, the caller's). Errors of trace_rename(). */
TM_MUST_CHECK int anonymize(const char *path, int fd, const struct anonymize_options *options,
			    struct tm_error *err);

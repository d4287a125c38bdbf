/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of a finished trace in other words, its figures as they are stored. */
#pragma once

#include "base/error.h"
#include "trace/records.h"

#include <stdint.h>

/*
 * What replaces the words of a trace. Each may change the record; texts that it puts in must live
 * until the next call. 0 or -ENOMEM. Numbers that tie records together (ids, addresses, times) must
 * stay as they are.
 */
struct trace_words {
	int (*meta)(void *ctx, struct trace_meta *meta);
	void (*end)(void *ctx, struct trace_end *end);
	int (*module)(void *ctx, uint32_t section, struct trace_module *module);
	int (*thread)(void *ctx, struct trace_thread *thread);
	int (*moment)(void *ctx, struct trace_moment *moment);
	int (*symbol)(void *ctx, uint32_t section, struct trace_symbol *symbol);
	/* Bytes; may be NULL. Not 0 stops, with that value. */
	int (*progress)(void *ctx, uint64_t done, uint64_t all);
	void *ctx;
};
/*
 * Writes a copy in other words to fd (a new, empty file, the caller's). Source lines are left out.
 * -EBADMSG for a trace that is not whole. O(file), memory of its largest block.
 */
TM_MUST_CHECK int trace_rename(const char *path, int fd, const struct trace_words *words,
			       struct tm_error *err);

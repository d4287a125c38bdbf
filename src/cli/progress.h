/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line on the terminal about long work: how much is done, how fast, how long
 * it will take; and a way to stop it with Ctrl-C. Nothing is shown in the first
 * half second, nor when standard error is no terminal.
 *
 *	struct progress progress;
 *	progress_begin(&progress, "checking", "B");
 *	... progress_tell(&progress, done, all) ...
 *	progress_end(&progress);
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *verb; /* "rebuilding the index" */
	const char *unit; /* after a number with K, M, G: "events", "B" */
	uint64_t start_ns, last_ns;
	bool terminal, shown;
};

/* From here on Ctrl-C stops the work, not the tool. One at a time in a process. */
void progress_begin(struct progress *progress, const char *verb, const char *unit);
/* The same, but Ctrl-C is none of its business. */
void progress_watch(struct progress *progress, const char *verb, const char *unit);
/* 0, or -ECANCELED after Ctrl-C. Cheap: may be called a thousand times per second. */
int progress_tell(struct progress *progress, uint64_t done, uint64_t all);
/* The same for callbacks: ctx is the struct progress. */
int progress_tell_fn(void *ctx, uint64_t done, uint64_t all);
/* Clears the line; Ctrl-C ends the tool again. */
void progress_end(struct progress *progress);

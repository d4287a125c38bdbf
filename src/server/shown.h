/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One trace that is being looked at: opened when first asked for, kept open,
 * and read anew when the file has grown or another has taken its place. A file
 * that is gone (moved away, deleted) stays as it was read. What was read
 * is a value of its own that lives until the last request that uses it has
 * left, so a slow reader holds up nobody.
 */
#pragma once

#include "base/error.h"
#include "model/query.h"
#include "views/views.h"

#include <stdbool.h>
#include <stdint.h>

enum shown_state { SHOWN_CLOSED, SHOWN_LOADING, SHOWN_READY, SHOWN_FAILED };

struct kept;
struct looks;
struct shown;

struct shown_facts {
	const char *path; /* for messages */
	struct trace_reader *reader;
	struct query_section *section; /* may be asked by several threads at once */
	struct view_input input;
	/* Only between shown_lock() and shown_unlock(): */
	struct view_data *data; /* the whole run */
	struct looks *looks;    /* of parts of it */
	struct kept *kept;      /* answers that were given; needs no lock */
	struct model_totals totals;
	uint64_t version;        /* rises when the file was read anew */
	int64_t changed_unix_ns; /* the file, before it was read */
	bool complete;
};

/* Called while a file is read, by the thread that reads it, and at the end with done == total. */
struct shown_watcher {
	void (*fn)(void *ctx, const char *path, uint64_t done_events, uint64_t total_events);
	void *ctx;
};

/* Path and watcher are borrowed. NULL when there is no memory. */
struct shown *shown_new(const char *path, const struct shown_watcher *watcher);
/* Nobody may use its facts any more. */
struct shown *shown_free(struct shown *shown);

/* Any thread, without waiting. */
enum shown_state shown_state(const struct shown *shown);
/* "closed", "loading", "ready", "failed" */
const char *shown_state_name(enum shown_state state);
/* Of loading: events looked at, and all. Any thread. */
void shown_progress(const struct shown *shown, uint64_t *ret_done, uint64_t *ret_total);
/* Loading stops soon; the requests that wait for it fail. Any thread. */
void shown_cancel(struct shown *shown);
/* Forgets what was read, unless it is being read now. */
void shown_close_idle(struct shown *shown);

/* Reads the file if need be. The facts are the caller's until shown_leave(). Any thread. */
TM_MUST_CHECK int shown_enter(struct shown *shown, struct shown_facts **ret_facts,
			      struct tm_error *err);
void shown_leave(struct shown_facts *facts);

/* One request at a time works with the views. */
void shown_lock(struct shown_facts *facts);
void shown_unlock(struct shown_facts *facts);

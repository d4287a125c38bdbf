/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles sent to somebody who gathers them: every interval one of each trace
 * that is being written, in pprof's form, by HTTP POST.
 *
 *   maker: trace -> profile -> queue (bounded) -> sender: POST, again if it failed
 *
 * Two threads, so that a slow receiver does not delay the making. What the queue
 * has no room for goes, the oldest first, and is counted.
 */
#pragma once

#include "base/error.h"
#include "server/catalog.h"

#include <stdint.h>

struct push;

struct push_options {
	struct catalog *catalog; /* borrowed until push_stop() */
	/*
	 * Where to. In it {program}, {pid}, {host}, {from} and {until} (seconds since 1970)
	 * stand for what they say. Borrowed.
	 */
	const char *url;
	uint64_t interval_ns; /* 0 = a minute */
	/* Called before each round; may be NULL. The maker's thread. */
	void (*before)(void *ctx);
	void *before_ctx;
	/* One line when sending begins to fail, works again, or was refused; NULL = silent. */
	void (*log)(void *ctx, const char *line);
	void *log_ctx;
};

enum { PUSH_INTERVAL_MIN_MS = 100 };

/* -EINVAL: the address, or the interval. */
TM_MUST_CHECK int push_start(const struct push_options *options, struct push **ret_push,
			     struct tm_error *err);
/*
 * One last round, and three seconds for what is in the queue; what is still there
 * then is dropped. Accepts NULL; returns NULL.
 */
struct push *push_stop(struct push *push);

struct push_figures {
	uint64_t sent;     /* profiles that were taken */
	uint64_t refused;  /* that the receiver does not want (4xx): not sent again */
	uint64_t dropped;  /* that the queue had no room for, or the end no time */
	uint64_t failures; /* times that sending failed, and was tried again */
	uint64_t waiting;  /* in the queue now */
};
/* Any thread. */
void push_figures(const struct push *push, struct push_figures *ret);

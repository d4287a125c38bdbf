/* SPDX-License-Identifier: Apache-2.0 */
/* /metrics: what is being recorded now, in the text form that Prometheus reads. */
#pragma once

#include "server/answer.h"
#include "server/catalog.h"
#include "server/request.h"
#include "server/server.h"

#include <stdbool.h>
#include <stdint.h>

/* CPU time and memory of the process that records. False: not known now. Any thread. */
typedef bool (*metrics_recorder_fn)(void *ctx, uint64_t *ret_cpu_ns, uint64_t *ret_bytes);

/* What it writes now. Any thread. */
typedef void (*metrics_recordings_fn)(void *ctx, server_recording_fn fn, void *fn_ctx);

struct push;

struct metrics {
	struct catalog *catalog;
	metrics_recorder_fn recorder;     /* NULL = not known */
	metrics_recordings_fn recordings; /* NULL = not known */
	void *recorder_ctx;
	const struct push *push; /* NULL = none */
};

/* The recorder may be at its next file: it becomes one of the catalog's. Any thread. */
void metrics_follow(const struct metrics *metrics);

/*
 * Of each trace that is being written, and of the newest if none is; old ones
 * are not read. A trace that cannot be read is left out. "sites" says of how many
 * functions.
 */
void metrics_answer(const struct metrics *metrics, const struct request *request,
		    struct answer *answer);

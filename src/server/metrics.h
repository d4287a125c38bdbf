/* SPDX-License-Identifier: Apache-2.0 */
/* /metrics: what is being recorded now, in the text form that Prometheus reads. */
#pragma once

#include "server/answer.h"
#include "server/catalog.h"

#include <stdbool.h>
#include <stdint.h>

/* CPU time and memory of the process that records. False: not known now. Any thread. */
typedef bool (*metrics_recorder_fn)(void *ctx, uint64_t *ret_cpu_ns, uint64_t *ret_bytes);

struct metrics {
	struct catalog *catalog;
	metrics_recorder_fn recorder; /* NULL = not known */
	void *recorder_ctx;
};

/*
 * Of each trace that is being written, and of the newest if none is; old ones
 * are not read. A trace that cannot be read is left out.
 */
void metrics_answer(const struct metrics *metrics, struct answer *answer);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace of a made-up server, simple enough to be counted by hand; the tests
 * of the SQL layer and the examples of docs/sql.md ask it questions.
 *
 * Request i begins at i * 500 us, in worker-1 (thread 1, even i) or worker-2
 * (thread 2); from half of the requests on worker-1 is gone and worker-2 does
 * all. Each request:
 *   parse_request  100 + i % 8 bytes, freed at the request's end
 *   log_line       33 bytes (operator new), freed at once: temporary
 *   buffer_grow    every 10th: 64 bytes, grown by realloc to 128, then 256, freed at the end
 *   session_new    every 100th: 1000 bytes, never freed
 *   cache_put      every 50th: 4096 bytes (calloc); all freed by main after each 10,000th request
 * And main (thread 0):
 *   index_build    1,000,000 bytes, aligned to 4096, from the start to request 30,000
 *   metrics_add    1000 bytes, doubled by realloc at each 4000th request, never freed
 * In request 777 an allocation of 2^40 bytes fails, in request 880 a realloc to as many.
 */
#pragma once

#include "trace/trace.h"

enum {
	SHOP_STEP_NS = 500000,
	SHOP_MAIN = 0,
	SHOP_WORKER_1 = 1,
	SHOP_WORKER_2 = 2,
	/* stack ids */
	SHOP_INDEX = 2,
	SHOP_METRICS = 3,
	SHOP_PARSE = 6,
	SHOP_LOG = 8,
	SHOP_BUFFER = 9,
	SHOP_SESSION = 10,
	SHOP_CACHE = 11,
	SHOP_STACKS = 12,
};

/* A block as the program knows it. */
struct shop_block {
	uint64_t size_bytes, birth_ns, end_ns; /* UINT64_MAX while it lives */
	uint64_t realloc_from;                 /* TRACE_NO_BLOCK if none */
	uint32_t stack_id, thread_id, end_thread_id;
	bool temporary, by_realloc;
};

struct shop {
	char path[64];
	uint32_t requests;
	struct shop_block *blocks; /* by block_id */
	size_t block_count, event_count;
	uint64_t duration_ns;
};

/* Writes the trace into a new file. */
void shop_make(struct shop *shop, uint32_t requests);
/* Removes it. */
void shop_done(struct shop *shop);

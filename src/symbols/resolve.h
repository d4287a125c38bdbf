/* SPDX-License-Identifier: Apache-2.0 */
/* What a batch of addresses is resolved with; between resolve.c and worker.c. */
#pragma once

#include "symbols/symbols.h"

struct resolve_batch {
	struct symbols *symbols;
	const struct trace_module *modules;
	size_t module_count;
	const struct symbols_request *requests; /* sorted by module and address */
	size_t request_count;
};

/* Told of each request in turn; frames are borrowed, count 0 = unnamed. 0 to go on. */
typedef int (*resolve_frames_fn)(void *ctx, size_t request, const struct symbols_frame *frames,
				 size_t count);
/* Told when all requests of a module have been. */
typedef int (*resolve_module_fn)(void *ctx, size_t requests_done);

/* Names requests[from, end) in this process. Returns 0 or what a callback returned. */
TM_MUST_CHECK int resolve_here(const struct resolve_batch *batch, size_t from, size_t end,
			       resolve_frames_fn on_frames, resolve_module_fn on_module, void *ctx);

/*
 * The same from `from` on, with debug information, in a process of its own,
 * since a file may change or be damaged under its reader. *ret_done says up to
 * which request the answers are in: less than all when that process crashed or
 * took too long. -ENOMEM, or what on_frames returned.
 */
TM_MUST_CHECK int worker_resolve(const struct resolve_batch *batch, size_t from,
				 resolve_frames_fn on_frames, void *ctx, size_t *ret_done);

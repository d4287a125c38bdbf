/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --cull: between the model, which has counted them, and the writer events wait
 * as long as a block must live to be stored. A block that ends meanwhile goes no
 * further, with its birth and its end; what remains of it are the aggregates,
 * and what its threads did, here.
 *
 *   model ──> | waiting events, oldest first | ──> writer
 *               ^ a birth younger than the lifetime holds up what came after it
 *
 * Blocks that a realloc made out of each other go or stay together, since a
 * reader follows the chain. Nothing waits across the end of a slice, so that
 * each slice says on its own what is missing. When there is no more room the
 * oldest goes on as if it had lived long: culling is best effort, figures are not.
 */
#pragma once

#include "base/error.h"
#include "trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cull;

enum { CULL_SLICE_EVENTS = 1 << 16 }; /* in a slice, at first */

/* Blocks that live shorter than that are left out. NULL without memory. */
struct cull *cull_new(uint64_t lifetime_ns);
struct cull *cull_free(struct cull *cull);
/* How long a slice should be at most when it begins, so that few blocks live across its end. */
uint64_t cull_slice_ns(uint64_t lifetime_ns);
/*
 * Events that the model has seen. Some of those before go to the writer, which keeps its own
 * errors. -ENOMEM: this and later events are not stored.
 */
TM_MUST_CHECK int cull_events(struct cull *cull, struct trace_writer *writer,
			      const struct trace_event *events, size_t count);
/* It is that late: what has waited long enough goes to the writer. */
void cull_tick(struct cull *cull, struct trace_writer *writer, uint64_t now_ns);
/* A slice ends: nothing waits any more. */
void cull_flush(struct cull *cull, struct trace_writer *writer);
/* What was culled in the open slice, into it; borrowed until the next call. */
void cull_describe(struct cull *cull, struct trace_slice *slice);
/* The slice was written: what comes now is of the next. */
void cull_next_slice(struct cull *cull);
/* Events that were culled, of all slices. */
uint64_t cull_count(const struct cull *cull);
/* Memory is short: fewer events wait from now on. */
void cull_shrink(struct cull *cull, struct trace_writer *writer);
uint64_t cull_memory_bytes(const struct cull *cull);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of one recording as the begin of the next: what lives in a model, as
 * events that make it live in another. docs/trace-format.md has their order.
 */
#pragma once

#include "model/model.h"

struct resume;

/* Copies what lives, and reallocs under way, of threads below thread_count. -ENOMEM. */
TM_MUST_CHECK int resume_new(const struct model *m, uint32_t thread_count,
			     struct resume **ret_resume);
struct resume *resume_free(struct resume *resume);
/* Blocks that live, and their bytes: without those that a realloc has begun to end. */
uint64_t resume_blocks(const struct resume *resume);
uint64_t resume_bytes(const struct resume *resume);
/* The largest interval that one of them was sampled by; 0: none was. */
uint64_t resume_interval(const struct resume *resume);
/* The next events, at time 0, without block ids; 0 at the end. room: at least 2. */
size_t resume_events(struct resume *resume, struct trace_event *events, size_t room);

/* What is mapped, as events at time 0. Not 0 stops, with that value. */
typedef int (*resume_map_fn)(void *ctx, const struct trace_map_event *event);
int resume_maps(const struct model *m, resume_map_fn fn, void *ctx);
/*
 * The same of what lies in a range, which a call takes away that may fail: with stacks, if the
 * model has maps_by_stack, and as no calls of their own.
 */
int resume_maps_within(const struct model *m, uint64_t address, uint64_t bytes, resume_map_fn fn,
		       void *ctx);

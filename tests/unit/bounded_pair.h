/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace within bounds and the whole one, written from the same random events,
 * so that every figure of one can be compared with the other.
 */
#pragma once

#include "model/model.h"
#include "model_reference.h"
#include "trace/trace.h"

#include <stddef.h>
#include <stdint.h>

struct query_section;

struct side {
	char path[64];
	struct model *model;
	struct trace_writer *writer;
	struct trace_reader *reader;
	struct query_section *section;
};

struct pair {
	struct side whole, bounded;
	struct ref_model *ref;
	struct ref_source source;
	uint64_t events, births;
	uint32_t slices;
	uint32_t batch_events;        /* at least; 0: 100 */
	uint32_t slice_every;         /* a slice ends after one in so many batches; 0: 4 */
	struct model_totals *history; /* NULL, or room for what is true after each batch */
	size_t history_count;
};

void pair_start(struct pair *pair, uint64_t seed, const struct trace_writer_options *bounds);
/* So many events more, in batches, some of which end a slice. */
void pair_run(struct pair *pair, uint64_t events);
void pair_cut(struct side *side);
/* The section ends with a slice, and the file. */
void pair_finish(struct side *side);
/* Opens both; totals, sums after slices and answers of the bounded one are those of the whole. */
void pair_compare(struct pair *pair);
void pair_same_totals(struct pair *pair);
void pair_same_slices(struct pair *pair);
void pair_done(struct pair *pair);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over all slices so far, per stack. The writer keeps them and writes them
 * now and then, so that a reader need not add up every slice of a long run; the
 * reader goes on from the nearest ones with the same code.
 */
#pragma once

#include "trace/bytes.h"
#include "trace/records.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sums_row {
	struct trace_sum sum; /* peak_*: the share as of `epoch` */
	uint32_t epoch;
};

struct sums {
	struct sums_row *rows; /* in order of appearance */
	uint32_t *row_of;      /* by stack_id, plus 1 */
	size_t count, room, map_room;
	uint32_t epoch;  /* rises with each slice in which the peak rose */
	uint32_t slices; /* added so far */
};

void sums_done(struct sums *sums);
/* Adds the next slice. -ENOMEM: then the sums are of no use any more. */
int sums_add(struct sums *sums, const struct trace_slice *slice);
/* All rows in order of stack_id into out[count]. */
void sums_list(const struct sums *sums, struct trace_sum *out);

/* The whole payload of a SUMS block. */
void sums_put(struct bytes *out, const struct sums *sums);
/* Replaces *sums, which is empty. NULL, or what is wrong (decode_no_memory included). */
const char *sums_get(struct span payload, uint32_t stack_count, struct sums *sums);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of many overlapping ranges covers each of a few addresses last. The
 * addresses are the leaves of a tree; a range is noted at the few nodes that
 * make it up, and the youngest note on the way up from a leaf is its answer:
 *
 *   range of 3 leaves:      .           noted at two nodes, however
 *                         x   .         many leaves there are below
 *                        . . x .
 */
#pragma once

#include "symbols/jit.h"

struct paint_note {
	uint64_t age;   /* larger is younger; 0 = none */
	uint64_t name;  /* where in the file the name is */
	uint64_t lines; /* where its lines are; 0 = nowhere */
	uint64_t start; /* of the code then, and where the lines have it */
	uint64_t origin;
};

struct paint {
	const struct jit_request *requests; /* sorted by address; borrowed */
	size_t count;
	size_t leaves; /* a power of two */
	struct paint_note *nodes;
	uint64_t age;
};

TM_MUST_CHECK int paint_init(struct paint *paint, const struct jit_request *requests, size_t count);
void paint_done(struct paint *paint);
/* Notes a range of code; false if it covers none of the addresses. O(log count). */
bool paint_range(struct paint *paint, uint64_t start, uint64_t bytes,
		 const struct paint_note *note);
/* The youngest note for a request, or NULL. O(log count). */
const struct paint_note *paint_find(const struct paint *paint, size_t request);

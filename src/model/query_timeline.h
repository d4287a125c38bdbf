/* SPDX-License-Identifier: Apache-2.0 */
/* A timeline while it is made. */
#pragma once

#include "model/query_section.h"

struct timeline {
	struct query_section *section;
	const struct query_timeline_options *options;
	struct query_range range;
	struct query_timeline *out;
	struct tm_error *err;
};

/* Points and curves of `count` points, all 0. 0 or -ENOMEM. */
TM_MUST_CHECK int timeline_make_points(struct timeline *t, size_t count);
/* The group of a stack, or NULL: the points of its curve. */
struct query_point *timeline_curve(const struct timeline *t, uint32_t stack_id);
/* The point that covers this time. */
size_t timeline_point_at(const struct timeline *t, uint64_t time_ns);

/* Points of equal width, from the events. */
TM_MUST_CHECK int timeline_by_scan(struct timeline *t, size_t count);
/* Resident and mapped memory of all points. 0 or -ENOMEM. */
TM_MUST_CHECK int timeline_add_process(struct timeline *t);

/* SPDX-License-Identifier: Apache-2.0 */
/* A timeline while it is made. */
#pragma once

#include "model/query_fast.h"

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

/* Points of equal width over the range. */
void timeline_spread(struct timeline *t);
/* Goes on to the point that holds `time_ns`; those that begin have this live at first. */
void timeline_pass(const struct timeline *t, size_t *at, uint64_t live_bytes, uint64_t time_ns);
/*
 * From rates to what lives at the end of each point; points[0].live_* is what lives at the start of
 * the range. With `extremes` these are taken from the ends of points.
 */
void timeline_add_up(const struct timeline *t, struct query_point *points, bool extremes);

/* A timeline that is drawn from left to right. */
struct drawing {
	struct timeline *t;
	struct fast fast;    /* for its plan and its edges */
	size_t at;           /* the point that is drawn */
	uint64_t live_bytes; /* of the overall curve */
	bool watch;          /* note extremes at each event */
	size_t per_point;
};
/* Whether the filter has this stack. */
bool drawing_chooses(const struct drawing *d, uint32_t stack_id);
/* More that lives when the range begins. */
void drawing_add_live(struct drawing *d, uint32_t stack_id, uint64_t blocks, uint64_t bytes);
/* What lives when a slice begins. */
TM_MUST_CHECK int drawing_add_sums(struct drawing *d, size_t slice);
/* The slice that the range begins in. */
size_t drawing_first_slice(const struct drawing *d);
/* Points of about equal width that end where ticks do; see query_ticks.h. */
TM_MUST_CHECK int draw_ticks(struct drawing *d, size_t point_count);

/* From slices and edges; the filter needs names only. */
TM_MUST_CHECK int timeline_by_slices(struct timeline *t, size_t count);
/* Points of equal width, from the events. */
TM_MUST_CHECK int timeline_by_scan(struct timeline *t, size_t count);
/* Resident and mapped memory of all points. 0 or -ENOMEM. */
TM_MUST_CHECK int timeline_add_process(struct timeline *t);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two sections, or two ranges of one, beside each other. Stacks are matched by
 * the names of their functions from the allocation to main, so that other
 * addresses, other builds and other folders do not matter; what the compiler
 * appends to names (.part.0, .constprop.1) does not either. A frame without a
 * name counts by its module.
 */
#pragma once

#include "views/views.h"

struct diff_row {
	const char *name; /* of the site, or of the group; owned by the struct diff */
	struct view_figures before, after;
	/* For view_next_frame() of that side; 0 = it has none (or the empty stack). */
	uint32_t before_stack, after_stack;
	uint32_t site; /* a number for the site, the same in its stacks */
};

struct diff_rows {
	struct diff_row *rows;
	size_t count;
};

struct diff {
	struct diff_rows sites, stacks; /* in order of appearance, until sorted */
	char **names;                   /* what rows point to */
	size_t name_count, name_room;
};

/* Every stack and every site of either side. O(frames of all stacks). -ENOMEM. */
TM_MUST_CHECK int diff_new(const struct view_data *before, const struct view_data *after,
			   struct diff **ret_diff, struct tm_error *err);
struct diff *diff_free(struct diff *diff);
/* The rows of a flat view (inclusive figures) of both sides. To be freed as above; sites only. */
TM_MUST_CHECK int diff_flat(const struct view_data *before, const struct view_data *after,
			    const struct view *view, struct diff **ret_diff, struct tm_error *err);

/* ---- what became of a figure ---- */

enum diff_state { DIFF_SAME, DIFF_NEW, DIFF_GONE, DIFF_GROWN, DIFF_SHRUNK };
enum diff_state diff_state(const struct diff_row *row, enum view_figure figure);
/* "new", "gone", "grown", "shrunk", "same". */
const char *diff_state_name(enum diff_state state);

enum diff_sort {
	DIFF_SORT_CHANGE,   /* the largest change, up or down, first */
	DIFF_SORT_GROWTH,   /* what grew most first, what shrank most last */
	DIFF_SORT_RELATIVE, /* the largest change in per cent first; what is new before all */
	DIFF_SORT_BEFORE,
	DIFF_SORT_AFTER,
	DIFF_SORT_NAME,
};
struct diff_order {
	enum view_figure figure;
	enum diff_sort sort;
};
/* Sites, and the stacks of each, by this order; equal ones by name. O(n log n). */
void diff_sort(struct diff *diff, const struct diff_order *order);
/*
 * The first so many of the sites or the stacks, whatever their site, by this order; the others in
 * any. diff_stacks() finds nothing after that.
 */
void diff_sort_first(struct diff_rows *rows, size_t first, const struct diff_order *order);
/* The site's stacks, in that order. */
const struct diff_row *diff_stacks(const struct diff *diff, const struct diff_row *site,
				   size_t *ret_count);
/* after - before. */
double diff_change(const struct diff_row *row, enum view_figure figure);
/* Multiplies what was counted before (allocations, frees, their bytes) by this, rounded. */
void diff_scale(struct diff *diff, double factor);

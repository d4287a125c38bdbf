/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One function with its neighbours: who calls it, whom it calls, and its lines.
 *
 * On a stack where the function recurs, its caller is that of the outermost
 * occurrence and its callee that of the innermost. So the callers' figures add up
 * to the function's inclusive ones, and so do the callees' and the lines'.
 */
#pragma once

#include "views/views.h"

struct view_callers {
	/* The functions that were meant: one, or several of one name. Figures of each. */
	struct view_rows functions;
	struct view_figures self, inclusive; /* of all of them; a stack counts once */
	/*
	 * The largest first; figures are in `inclusive`. A caller without function and module:
	 * nobody, the stack begins there. Such a callee: the function itself, which called the
	 * allocator; that row has the self figures.
	 */
	struct view_rows callers, callees;
	struct view_rows lines; /* file NULL: not known */
};

/*
 * `name` is a whole name, with or without parameters; else a part of names. The
 * rows are sorted by the order. O(stacks). -ENOENT with a sentence if no function
 * on any stack is meant; -ENOMEM.
 */
TM_MUST_CHECK int view_callers_new(const struct view_data *data, const char *name,
				   enum view_figure order, struct view_callers *ret_callers,
				   struct tm_error *err);
void view_callers_done(struct view_callers *callers);

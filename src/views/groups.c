/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flat lists: every function, line, package, module, allocator or process, with what was
 * allocated by it (self) and below it (inclusive).
 *
 * A group is what its frames have in common. Self figures are those of the stacks
 * whose site is in the group; inclusive ones of the stacks that have a frame in
 * it, each stack once. For allocators both are those of the stacks that
 * came in through it, for heaps and tags those that carry its name.
 */
#include <errno.h>

#include "base/memory.h"
#include "trace/labels.h"
#include "views/data.h"
#include "views/rowset.h"

enum { NO_GROUP = UINT32_MAX };

struct groups {
	struct row_set set; /* by group */
	uint32_t *of_frame; /* by frame; NO_GROUP = none */
	uint32_t direct;    /* the group of the stacks without any; NO_GROUP = none */
};

static enum trace_label label_of(enum view_group group)
{
	return group == VIEW_GROUP_HEAP ? TRACE_LABEL_HEAP : TRACE_LABEL_TAG;
}

static bool is_by_label(enum view_group group)
{
	return group == VIEW_GROUP_HEAP || group == VIEW_GROUP_TAG;
}

/* What a frame's group is told apart by. False: the frame has none. */
static bool key_of(enum view_group group, const struct view_frame *frame, struct view_row *key)
{
	*key = (struct view_row){0};
	switch (group) {
	case VIEW_GROUP_PROCESS:
		if (!view_is_process(frame))
			return false;
		key->function = frame->function;
		key->module = frame->module;
		return true;
	case VIEW_GROUP_ALLOCATOR:
		if (!frame->is_allocator)
			return false;
		/* fall through */
	case VIEW_GROUP_FUNCTION:
		key->function = frame->function;
		key->module = frame->module;
		return true;
	case VIEW_GROUP_LINE:
		key->function = frame->function;
		key->module = frame->module;
		key->file = frame->file;
		key->line = frame->file ? frame->line : 0;
		return true;
	case VIEW_GROUP_PACKAGE:
		key->package = frame->package ? frame->package : "";
		return true;
	case VIEW_GROUP_MODULE:
		key->module = frame->module;
		return true;
	case VIEW_GROUP_HEAP:
	case VIEW_GROUP_TAG:
		key->module = "";
		return frame->label == label_of(group) &&
		       trace_label_of(frame->module, &key->function) != TRACE_LABEL_NONE;
	}
	return false;
}

static int make_groups(struct groups *groups, const struct view_data *data, enum view_group group)
{
	const struct names *names = &data->names;
	groups->of_frame = tm_alloc_array(names->frame_count, sizeof *groups->of_frame);
	if (!groups->of_frame)
		return -ENOMEM;
	struct view_row key;
	for (size_t i = 0; i < names->frame_count; i++) {
		groups->of_frame[i] = NO_GROUP;
		if (key_of(group, &names->frames[i], &key) &&
		    row_set_intern(&groups->set, &key, &groups->of_frame[i]))
			return -ENOMEM;
	}
	groups->direct = NO_GROUP;
	key = (struct view_row){.module = ""};
	return group == VIEW_GROUP_ALLOCATOR || is_by_label(group)
		       ? row_set_intern(&groups->set, &key, &groups->direct)
		       : 0;
}

static void add_both(const struct groups *groups, uint32_t group,
		     const struct view_stack_row *stack)
{
	view_figures_add(&groups->set.rows[group].self, &stack->figures);
	view_figures_add(&groups->set.rows[group].inclusive, &stack->figures);
}

/* An allocator's entry points call each other; the outermost is what the program called. */
static void add_to_allocator(const struct view_data *data, const struct groups *groups,
			     const struct view_stack_row *stack)
{
	const struct names *names = &data->names;
	uint32_t group = groups->direct;
	for (uint32_t node = stack->stack; node; node = names->nodes[node].parent) {
		uint32_t frame = names->nodes[node].frame;
		if (!names->frames[frame].is_allocator)
			break;
		if (names->frames[frame].label != TRACE_LABEL_TAG)
			group = groups->of_frame[frame];
	}
	add_both(groups, group, stack);
}

/* Labels are at the leaf. A stack with two tags counts for both. */
static void add_to_labels(const struct view_data *data, const struct groups *groups,
			  const struct view_stack_row *stack)
{
	const struct names *names = &data->names;
	bool found = false;
	for (uint32_t node = stack->stack; node; node = names->nodes[node].parent) {
		uint32_t frame = names->nodes[node].frame;
		if (!names->frames[frame].label)
			break;
		if (groups->of_frame[frame] == NO_GROUP)
			continue;
		found = true;
		add_both(groups, groups->of_frame[frame], stack);
	}
	if (!found)
		add_both(groups, groups->direct, stack);
}

static void add_to_process(const struct view_data *data, const struct groups *groups,
			   const struct view_stack_row *stack)
{
	const struct names *names = &data->names;
	uint32_t outermost = 0;
	for (uint32_t node = stack->stack; node; node = names->nodes[node].parent)
		outermost = node;
	uint32_t group = outermost ? groups->of_frame[names->nodes[outermost].frame] : NO_GROUP;
	if (group == NO_GROUP)
		return;
	add_both(groups, group, stack);
}

/* seen[group] == stack: a group that recurs on a stack counts once. */
static void add_stack(const struct view_data *data, const struct groups *groups,
		      const struct view_stack_row *stack, uint32_t *seen)
{
	const struct names *names = &data->names;
	bool site_found = false;
	for (uint32_t node = stack->stack; node; node = names->nodes[node].parent) {
		uint32_t frame = names->nodes[node].frame, group = groups->of_frame[frame];
		bool is_site = !site_found && (!names->nodes[stack->stack].has_site ||
					       !names->frames[frame].is_allocator);
		if (is_site)
			view_figures_add(&groups->set.rows[group].self, &stack->figures);
		site_found |= is_site;
		if (seen[group] == stack->stack)
			continue;
		seen[group] = stack->stack;
		view_figures_add(&groups->set.rows[group].inclusive, &stack->figures);
	}
}

static bool is_used(const struct view_row *row)
{
	const struct view_figures *f = &row->inclusive;
	for (size_t i = 0; i < VIEW_FIGURE_COUNT; i++)
		if (f->of[i])
			return true;
	return false;
}

static void take_rows(struct groups *groups, const struct view *view, struct view_rows *ret_rows)
{
	struct row_set *set = &groups->set;
	size_t count = 0;
	for (size_t i = 0; set->rows && i < set->count; i++)
		if (is_used(&set->rows[i]))
			set->rows[count++] = set->rows[i];
	set->count = count;
	row_set_take(set, ret_rows);
	view_rows_sort(ret_rows, view);
}

int groups_fill(const struct view *view, const struct view_data *data, struct view_rows *ret_rows,
		struct tm_error *err)
{
	struct groups groups = {0};
	int code = make_groups(&groups, data, view->group);
	uint32_t *seen = code ? NULL : tm_alloc_array(groups.set.count, sizeof *seen);
	for (size_t i = 0; seen && groups.set.rows && i < data->row_count; i++) {
		if (view->group == VIEW_GROUP_ALLOCATOR)
			add_to_allocator(data, &groups, &data->rows[i]);
		else if (is_by_label(view->group))
			add_to_labels(data, &groups, &data->rows[i]);
		else if (view->group == VIEW_GROUP_PROCESS)
			add_to_process(data, &groups, &data->rows[i]);
		else
			add_stack(data, &groups, &data->rows[i], seen);
	}
	if (seen)
		take_rows(&groups, view, ret_rows);
	else
		code = tm_fail(err, -ENOMEM, "out of memory");
	tm_free(seen);
	row_set_done(&groups.set);
	tm_free(groups.of_frame);
	return code;
}

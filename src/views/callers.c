/* SPDX-License-Identifier: Apache-2.0 */
#include "views/callers.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "views/data.h"
#include "views/rowset.h"

enum { MATCH_WHOLE, MATCH_PLAIN, MATCH_PART, MATCH_KINDS };

struct search {
	const struct view_data *data;
	bool *is_meant; /* by function_id */
	struct row_set functions, callers, callees, lines;
	struct view_figures self, inclusive;
};

/* Where the parameters begin: not at "operator()" nor within template arguments. */
static size_t plain_length(const char *function)
{
	int depth = 0;
	for (size_t i = 0; function[i]; i++) {
		if (function[i] == '<')
			depth++;
		else if (function[i] == '>')
			depth--;
		else if (function[i] == '(' && depth <= 0 && i && strncmp(function + i, "()(", 3))
			return i;
		else if (!strncmp(function + i, "()(", 3))
			return i + 2;
	}
	return strlen(function);
}

static bool matches(const char *function, const char *name, int how)
{
	switch (how) {
	case MATCH_WHOLE:
		return !strcmp(function, name);
	case MATCH_PLAIN:
		return strlen(name) == plain_length(function) &&
		       !strncmp(function, name, strlen(name));
	default:
		return strstr(function, name) != NULL;
	}
}

/* The strictest way of matching that finds anything. False: none does. */
static bool find_functions(struct search *search, const char *name)
{
	const struct names *names = &search->data->names;
	bool found = false;
	for (int how = MATCH_WHOLE; !found && name[0] && how < MATCH_KINDS; how++)
		for (size_t i = 0; i < names->function_count; i++) {
			const char *function = names->functions[i].function;
			search->is_meant[i] = function && matches(function, name, how);
			found |= search->is_meant[i];
		}
	return found;
}

static const struct view_frame *frame_of(const struct search *search, uint32_t node)
{
	return node ? &search->data->names.frames[search->data->names.nodes[node].frame] : NULL;
}

static int add(struct row_set *set, struct view_row key, const struct view_figures *figures,
	       bool is_self)
{
	uint32_t id;
	if (row_set_intern(set, &key, &id))
		return -ENOMEM;
	view_figures_add(&set->rows[id].inclusive, figures);
	if (is_self)
		view_figures_add(&set->rows[id].self, figures);
	return 0;
}

static struct view_row function_key(const struct view_frame *frame)
{
	if (!frame)
		return (struct view_row){0};
	return (struct view_row){.function = frame->function, .module = frame->module};
}

static struct view_row line_key(const struct view_frame *frame)
{
	return (struct view_row){.file = frame->file,
				 .line = frame->file ? frame->line : 0,
				 .module = frame->module};
}

/* Where the function is on a stack; nodes, 0 = nowhere. */
struct place {
	uint32_t inside, innermost, outermost;
	bool is_site; /* the innermost occurrence is */
};

static struct place find_place(const struct search *search, uint32_t stack)
{
	const struct names *names = &search->data->names;
	struct place place = {0};
	bool site_passed = false;
	uint32_t before = 0;
	for (uint32_t node = stack; node; node = names->nodes[node].parent) {
		const struct view_frame *frame = frame_of(search, node);
		bool could_be_site = !frame->is_allocator || !names->nodes[stack].has_site;
		if (search->is_meant[frame->function_id]) {
			place.outermost = node;
			if (!place.innermost) {
				place.innermost = node;
				place.inside = before;
				place.is_site = could_be_site && !site_passed;
			}
		}
		site_passed |= could_be_site;
		before = node;
	}
	return place;
}

static int add_stack(struct search *search, const struct view_stack_row *row)
{
	struct place place = find_place(search, row->stack);
	if (!place.innermost)
		return 0;
	const struct view_figures *figures = &row->figures;
	const struct view_frame *inner = frame_of(search, place.innermost);
	const struct view_frame *caller =
		frame_of(search, search->data->names.nodes[place.outermost].parent);
	const struct view_frame *callee = place.is_site ? NULL : frame_of(search, place.inside);
	view_figures_add(&search->inclusive, figures);
	if (place.is_site)
		view_figures_add(&search->self, figures);
	if (add(&search->functions, function_key(inner), figures, place.is_site) ||
	    add(&search->callers, function_key(caller), figures, place.is_site) ||
	    add(&search->callees, function_key(callee), figures, place.is_site) ||
	    add(&search->lines, line_key(inner), figures, place.is_site))
		return -ENOMEM;
	return 0;
}

static void take(struct row_set *set, enum view_figure order, struct view_rows *ret_rows)
{
	const struct view by = {.flat = true, .order = order};
	row_set_take(set, ret_rows);
	view_rows_sort(ret_rows, &by);
}

static void search_done(struct search *search)
{
	tm_free(search->is_meant);
	row_set_done(&search->functions);
	row_set_done(&search->callers);
	row_set_done(&search->callees);
	row_set_done(&search->lines);
}

int view_callers_new(const struct view_data *data, const char *name, enum view_figure order,
		     struct view_callers *ret_callers, struct tm_error *err)
{
	struct search search = {.data = data};
	search.is_meant = tm_alloc_array(data->names.function_count, sizeof *search.is_meant);
	int code = search.is_meant ? 0 : -ENOMEM;
	bool found = !code && find_functions(&search, name);
	for (size_t i = 0; found && !code && i < data->row_count; i++)
		code = add_stack(&search, &data->rows[i]);
	if (!code && search.functions.count) {
		struct view_callers callers = {.self = search.self, .inclusive = search.inclusive};
		take(&search.functions, order, &callers.functions);
		take(&search.callers, order, &callers.callers);
		take(&search.callees, order, &callers.callees);
		take(&search.lines, order, &callers.lines);
		*ret_callers = callers;
	} else if (!code) {
		code = tm_fail(err, -ENOENT,
			       "no function called '%s' is on any stack that was chosen", name);
	} else {
		tm_fail(err, code, "out of memory");
	}
	search_done(&search);
	return code;
}

void view_callers_done(struct view_callers *callers)
{
	view_rows_done(&callers->functions);
	view_rows_done(&callers->callers);
	view_rows_done(&callers->callees);
	view_rows_done(&callers->lines);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "views/diff.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/sort.h"
#include "views/data.h"
#include "views/diff_names.h"

/* A stack as a path of names from the innermost frame outwards: both sides share the nodes. */
struct path {
	uint32_t inner; /* the path without its last name; 0 = it is the first */
	uint32_t name;
	uint32_t row; /* in stacks, plus 1; 0 = none ends here */
};

struct work {
	struct diff *diff;
	struct diff_names names;
	struct path *paths; /* [0] is the empty one */
	size_t path_count, path_room;
	struct idmap path_map;
	uint32_t *site_of_name; /* row in sites, plus 1 */
	size_t site_room;
	size_t stack_room, site_row_room;
};

static bool same_path(const void *ctx, uint32_t id, const void *key)
{
	const struct work *k = ctx;
	const struct path *wanted = key;
	return k->paths[id].inner == wanted->inner && k->paths[id].name == wanted->name;
}

static int grow(void *list, size_t count, size_t *room, size_t bytes)
{
	void **array = list;
	if (count < *room)
		return 0;
	size_t wanted = *room * 2 + 256;
	void *grown = tm_grow_array(*array, wanted, bytes);
	if (!grown)
		return -ENOMEM;
	memset((char *)grown + *room * bytes, 0, (wanted - *room) * bytes);
	*array = grown;
	*room = wanted;
	return 0;
}

/* The path that goes on from `inner` by `name`. */
static int step(struct work *k, uint32_t inner, uint32_t name, uint32_t *ret)
{
	const struct path wanted = {.inner = inner, .name = name};
	uint64_t hash = hash_pair(inner, name);
	uint32_t found = idmap_find(&k->path_map, hash, same_path, k, &wanted);
	if (found != IDMAP_NONE) {
		*ret = found;
		return 0;
	}
	if (k->path_count >= IDMAP_NONE ||
	    grow(&k->paths, k->path_count, &k->path_room, sizeof *k->paths) ||
	    idmap_add(&k->path_map, hash, (uint32_t)k->path_count))
		return -ENOMEM;
	k->paths[k->path_count] = wanted;
	*ret = (uint32_t)k->path_count++;
	return 0;
}

/* From the innermost frame to main: what called that is the C library's business. */
static int find_path(struct work *k, const struct view_data *data, uint32_t stack, uint32_t *ret)
{
	const struct view_frame *frame;
	uint32_t path = 0;
	bool at_root = false;
	while (!at_root && (frame = view_next_frame(data, &stack))) {
		uint32_t name;
		at_root = frame->is_root;
		int rc = diff_names_frame(&k->names, frame->function, frame->module, &name);
		if (!rc)
			rc = step(k, path, name, &path);
		if (rc)
			return rc;
	}
	*ret = path;
	return 0;
}

/* The row of the site that has this name. */
static int find_site(struct work *k, uint32_t name, uint32_t *ret)
{
	struct diff_rows *sites = &k->diff->sites;
	while (name >= k->site_room)
		if (grow(&k->site_of_name, k->site_room, &k->site_room, sizeof *k->site_of_name))
			return -ENOMEM;
	if (!k->site_of_name[name]) {
		if (grow(&sites->rows, sites->count, &k->site_row_room, sizeof *sites->rows))
			return -ENOMEM;
		sites->rows[sites->count] = (struct diff_row){.name = k->names.texts[name],
							      .site = (uint32_t)sites->count};
		k->site_of_name[name] = (uint32_t)++sites->count;
	}
	*ret = k->site_of_name[name] - 1;
	return 0;
}

static int site_name(struct work *k, const struct view_data *data, const struct view_stack_row *row,
		     uint32_t *ret)
{
	if (!row->stack || row->site >= data->names.function_count)
		return diff_names_frame(&k->names, "[no stack]", "", ret);
	const struct names_function *function = &data->names.functions[row->site];
	return diff_names_frame(&k->names, function->function, function->module, ret);
}

static int find_row(struct work *k, const struct view_data *data,
		    const struct view_stack_row *stack, struct diff_row **ret)
{
	struct diff_rows *stacks = &k->diff->stacks;
	uint32_t path = 0, name = 0, site = 0;
	int rc = find_path(k, data, stack->stack, &path);
	if (!rc)
		rc = site_name(k, data, stack, &name);
	if (!rc)
		rc = find_site(k, name, &site);
	if (rc)
		return rc;
	if (!k->paths[path].row) {
		if (grow(&stacks->rows, stacks->count, &k->stack_room, sizeof *stacks->rows))
			return -ENOMEM;
		stacks->rows[stacks->count] =
			(struct diff_row){.name = k->names.texts[name], .site = site};
		k->paths[path].row = (uint32_t)++stacks->count;
	}
	*ret = &stacks->rows[k->paths[path].row - 1];
	return 0;
}

static int add_side(struct work *k, const struct view_data *data, bool is_after)
{
	size_t count;
	const struct view_stack_row *stacks = view_stacks(data, &count);
	for (size_t i = 0; i < count; i++) {
		struct diff_row *row = NULL;
		int rc = find_row(k, data, &stacks[i], &row);
		if (rc)
			return rc;
		struct diff_row *site = &k->diff->sites.rows[row->site];
		view_figures_add(is_after ? &row->after : &row->before, &stacks[i].figures);
		view_figures_add(is_after ? &site->after : &site->before, &stacks[i].figures);
		if (is_after && !row->after_stack)
			row->after_stack = stacks[i].stack;
		if (!is_after && !row->before_stack)
			row->before_stack = stacks[i].stack;
	}
	return 0;
}

static int begin(struct work *k)
{
	k->diff = tm_alloc(sizeof *k->diff);
	int rc = k->diff ? grow(&k->paths, 0, &k->path_room, sizeof *k->paths) : -ENOMEM;
	k->path_count = 1;
	return rc;
}

/* Releases all but the result, to which the names go. */
static int finish(struct work *k, int rc, struct diff **ret_diff, struct tm_error *err)
{
	if (k->diff)
		diff_names_take(&k->names, &k->diff->names, &k->diff->name_count);
	diff_names_done(&k->names);
	tm_free(k->paths);
	tm_free(k->site_of_name);
	idmap_done(&k->path_map);
	if (rc) {
		diff_free(k->diff);
		return tm_fail(err, rc, "out of memory");
	}
	*ret_diff = k->diff;
	return 0;
}

int diff_new(const struct view_data *before, const struct view_data *after, struct diff **ret_diff,
	     struct tm_error *err)
{
	struct work k = {0};
	int rc = begin(&k);
	if (!rc)
		rc = add_side(&k, before, false);
	if (!rc)
		rc = add_side(&k, after, true);
	return finish(&k, rc, ret_diff, err);
}

static int add_flat(struct work *k, const struct view_data *data, const struct view *view,
		    bool is_after, struct tm_error *err)
{
	struct view_rows rows;
	struct text name = {0};
	int rc = view_fill(view, data, &rows, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < rows.count && !rc; i++) {
		uint32_t id, site;
		text_clear(&name);
		view_row_name(&name, view, &rows.rows[i]);
		rc = text_error(&name);
		if (!rc)
			rc = diff_names_frame(&k->names, text_string(&name), "", &id);
		if (!rc)
			rc = find_site(k, id, &site);
		if (rc)
			break;
		struct diff_row *row = &k->diff->sites.rows[site];
		view_figures_add(is_after ? &row->after : &row->before, &rows.rows[i].inclusive);
	}
	text_done(&name);
	view_rows_done(&rows);
	return rc;
}

int diff_flat(const struct view_data *before, const struct view_data *after,
	      const struct view *view, struct diff **ret_diff, struct tm_error *err)
{
	struct work k = {0};
	int rc = begin(&k);
	if (!rc)
		rc = add_flat(&k, before, view, false, err);
	if (!rc)
		rc = add_flat(&k, after, view, true, err);
	return finish(&k, rc, ret_diff, err);
}

struct diff *diff_free(struct diff *diff)
{
	if (!diff)
		return NULL;
	for (size_t i = 0; i < diff->name_count; i++)
		tm_free(diff->names[i]);
	tm_free(diff->names);
	tm_free(diff->sites.rows);
	tm_free(diff->stacks.rows);
	return tm_free(diff);
}

/* ---- states and order ---- */

enum diff_state diff_state(const struct diff_row *row, enum view_figure figure)
{
	uint64_t before = row->before.of[figure], after = row->after.of[figure];
	if (before == after)
		return DIFF_SAME;
	if (!before)
		return DIFF_NEW;
	if (!after)
		return DIFF_GONE;
	return after > before ? DIFF_GROWN : DIFF_SHRUNK;
}

const char *diff_state_name(enum diff_state state)
{
	static const char *const names[] = {"same", "new", "gone", "grown", "shrunk"};
	return names[state];
}

double diff_change(const struct diff_row *row, enum view_figure figure)
{
	return (double)row->after.of[figure] - (double)row->before.of[figure];
}

/* What the rows are sorted by, the largest first. */
static double weight(const struct diff_row *row, const struct diff_order *order)
{
	double change = diff_change(row, order->figure);
	double size = change < 0 ? -change : change;
	double before = (double)row->before.of[order->figure];
	switch (order->sort) {
	case DIFF_SORT_CHANGE:
		return size;
	case DIFF_SORT_GROWTH:
		return change;
	case DIFF_SORT_RELATIVE:
		return before > 0 ? size / before : size > 0 ? 1e300 : 0;
	case DIFF_SORT_BEFORE:
		return before;
	case DIFF_SORT_AFTER:
		return (double)row->after.of[order->figure];
	case DIFF_SORT_NAME:
		break;
	}
	return 0;
}

static int compare(const void *left, const void *right, void *ctx)
{
	const struct diff_row *a = left, *b = right;
	double x = weight(a, ctx), y = weight(b, ctx);
	if (x != y)
		return x > y ? -1 : 1;
	int names = strcmp(a->name, b->name);
	if (names)
		return names;
	if (a->after_stack != b->after_stack)
		return a->after_stack < b->after_stack ? -1 : 1;
	return (a->before_stack > b->before_stack) - (a->before_stack < b->before_stack);
}

static int compare_in_site(const void *left, const void *right, void *ctx)
{
	const struct diff_row *a = left, *b = right;
	if (a->site != b->site)
		return a->site < b->site ? -1 : 1;
	return compare(left, right, ctx);
}

void diff_sort(struct diff *diff, const struct diff_order *order)
{
	struct diff_order copy = *order;
	if (diff->sites.count)
		sort_array(diff->sites.rows, diff->sites.count, sizeof *diff->sites.rows, compare,
			   &copy);
	if (diff->stacks.count)
		sort_array(diff->stacks.rows, diff->stacks.count, sizeof *diff->stacks.rows,
			   compare_in_site, &copy);
}

void diff_sort_first(struct diff_rows *rows, size_t first, const struct diff_order *order)
{
	struct diff_order copy = *order;
	if (rows->count)
		sort_array_first(rows->rows, rows->count, first, sizeof *rows->rows, compare,
				 &copy);
}

const struct diff_row *diff_stacks(const struct diff *diff, const struct diff_row *site,
				   size_t *ret_count)
{
	const struct diff_row *rows = diff->stacks.rows;
	size_t low = 0, high = diff->stacks.count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (rows[middle].site < site->site)
			low = middle + 1;
		else
			high = middle;
	}
	size_t end = low;
	while (end < diff->stacks.count && rows[end].site == site->site)
		end++;
	*ret_count = end - low;
	return rows + low;
}

static void scale_rows(struct diff_rows *rows, double factor)
{
	static const enum view_figure counted[] = {VIEW_ALLOCATIONS, VIEW_ALLOCATED_BYTES,
						   VIEW_FREES,       VIEW_FREED_BYTES,
						   VIEW_TEMPORARY,   VIEW_FAILED};
	for (size_t i = 0; i < rows->count; i++)
		for (size_t k = 0; k < sizeof counted / sizeof counted[0]; k++) {
			uint64_t *value = &rows->rows[i].before.of[counted[k]];
			double scaled = (double)*value * factor + 0.5;
			*value = scaled < 1.8e19 ? (uint64_t)scaled : UINT64_MAX;
		}
}

void diff_scale(struct diff *diff, double factor)
{
	scale_rows(&diff->sites, factor);
	scale_rows(&diff->stacks, factor);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks with their figures: what other tools call groups of allocations. */
#include "server/api.h"

#include <errno.h>
#include <stdlib.h>

#include "base/memory.h"
#include "server/held.h"
#include "server/look.h"
#include "views/to_json.h"

enum { LIMIT_DEFAULT = 50 };

struct ordered {
	uint64_t value;
	const struct view_stack_row *row;
};

static int by_value(const void *a, const void *b)
{
	const struct ordered *x = a, *y = b;
	if (x->value != y->value)
		return x->value < y->value ? 1 : -1;
	return x->row->stack < y->row->stack ? -1 : x->row->stack > y->row->stack;
}

/* A share in millionths, 0 of nothing. */
static uint64_t share_ppm(uint64_t part, uint64_t whole)
{
	return whole ? (uint64_t)((double)part * 1e6 / (double)whole) : 0;
}

static bool is_wanted(const struct request *request, const struct view_figures *figures)
{
	uint64_t allocations = figures->of[VIEW_ALLOCATIONS];
	uint64_t unfreed = share_ppm(figures->of[VIEW_UNFREED_BLOCKS], allocations);
	return allocations >= request_number(request, "min_allocations", 0) &&
	       allocations <= request_number(request, "max_allocations", UINT64_MAX) &&
	       unfreed >= request_number(request, "min_unfreed_ppm", 0) &&
	       unfreed <= request_number(request, "max_unfreed_ppm", UINT64_MAX);
}

/* When each stack of the views allocated first and last, by its node. */
struct spells {
	uint64_t *first_ns, *last_ns; /* NULL: nobody asked */
	size_t count;
};

static void spells_done(struct spells *spells)
{
	tm_free(spells->first_ns);
	tm_free(spells->last_ns);
}

static int add_spells(struct spells *spells, const struct call *call,
		      const struct selection *selection, const struct view_data *data,
		      struct tm_error *err)
{
	size_t count = call->facts->input.stack_count;
	struct held *held;
	int code = held_count(call, selection, &held, err);
	for (size_t i = 0; !code && i < count; i++) {
		uint32_t node = view_node_of(data, (uint32_t)i);
		if (node >= spells->count || held[i].first_ns > held[i].last_ns)
			continue;
		if (held[i].first_ns < spells->first_ns[node])
			spells->first_ns[node] = held[i].first_ns;
		if (held[i].last_ns > spells->last_ns[node])
			spells->last_ns[node] = held[i].last_ns;
	}
	if (!code)
		tm_free(held);
	return code;
}

/* Reads the events, so only when it is asked for. */
static int spells_init(struct spells *spells, const struct call *call,
		       const struct selection *selection, const struct view_data *data,
		       struct tm_error *err)
{
	*spells = (struct spells){0};
	if (!request_find(call->request, "min_interval_ns") &&
	    !request_find(call->request, "max_interval_ns"))
		return 0;
	spells->count = view_node_count(data);
	spells->first_ns = tm_alloc_array(spells->count + 1, sizeof *spells->first_ns);
	spells->last_ns = tm_alloc_array(spells->count + 1, sizeof *spells->last_ns);
	if (!spells->first_ns || !spells->last_ns)
		return tm_fail(err, -ENOMEM, "no memory for the stacks");
	for (size_t i = 0; i < spells->count; i++)
		spells->first_ns[i] = UINT64_MAX;
	return add_spells(spells, call, selection, data, err);
}

static bool is_in_time(const struct spells *spells, const struct request *request, uint32_t node)
{
	if (!spells->first_ns)
		return true;
	uint64_t first = spells->first_ns[node], last = spells->last_ns[node];
	return first <= last && last - first >= request_number(request, "min_interval_ns", 0) &&
	       last - first <= request_number(request, "max_interval_ns", UINT64_MAX);
}

static void put_stacks(struct call *call, const struct view_data *data, const struct ordered *list,
		       size_t count)
{
	struct json *json = &call->answer->json;
	uint64_t skip = request_number(call->request, "skip", 0);
	uint64_t limit = request_number(call->request, "limit", LIMIT_DEFAULT);
	json_begin_array(json, "stacks");
	for (size_t i = (size_t)skip; i < count && i - skip < limit; i++) {
		json_begin_object(json, NULL);
		json_u64(json, "stack", list[i].row->stack);
		view_json_figures(json, &list[i].row->figures);
		view_json_frames(json, "frames", data, list[i].row->stack);
		json_end(json);
	}
	json_end(json);
	json_u64(json, "count", count);
}

static int put_selected(struct call *call, const struct selection *selection, struct tm_error *err)
{
	const struct view_data *data;
	const struct query_answer *answer;
	int code = look_at(call, selection, &data, &answer, err);
	if (code)
		return code;
	size_t count, kept = 0;
	enum view_figure order = api_order(call, selection);
	const struct view_stack_row *rows = view_stacks(data, &count);
	struct spells spells;
	code = spells_init(&spells, call, selection, data, err);
	struct ordered *list = code ? NULL : tm_alloc_array(count ? count : 1, sizeof *list);
	if (!list) {
		spells_done(&spells);
		return code ? code : tm_fail(err, -ENOMEM, "no memory for the stacks");
	}
	for (size_t i = 0; i < count; i++)
		if (rows[i].figures.of[order] && is_wanted(call->request, &rows[i].figures) &&
		    is_in_time(&spells, call->request, rows[i].stack))
			list[kept++] = (struct ordered){rows[i].figures.of[order], &rows[i]};
	if (kept)
		qsort(list, kept, sizeof *list, by_value);
	struct json *json = answer_json(call->answer);
	json_begin_object(json, NULL);
	api_put_found(json, selection, answer);
	json_string(json, "order", view_columns[order].key);
	put_stacks(call, data, list, kept);
	json_end(json);
	spells_done(&spells);
	tm_free(list);
	return 0;
}

int api_stacks(struct call *call, struct tm_error *err)
{
	struct selection selection;
	int code = selection_init(&selection, call, err);
	if (code)
		return code;
	code = put_selected(call, &selection, err);
	selection_done(&selection);
	return code;
}

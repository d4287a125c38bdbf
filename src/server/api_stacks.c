/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks with their figures: what other tools call groups of allocations. */
#include "server/api.h"

#include <errno.h>
#include <stdlib.h>

#include "base/memory.h"
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
	struct ordered *list = tm_alloc_array(count ? count : 1, sizeof *list);
	if (!list)
		return tm_fail(err, -ENOMEM, "no memory for the stacks");
	for (size_t i = 0; i < count; i++)
		if (rows[i].figures.of[order] && is_wanted(call->request, &rows[i].figures))
			list[kept++] = (struct ordered){rows[i].figures.of[order], &rows[i]};
	if (kept)
		qsort(list, kept, sizeof *list, by_value);
	struct json *json = answer_json(call->answer);
	json_begin_object(json, NULL);
	api_put_found(json, selection, answer);
	json_string(json, "order", view_columns[order].key);
	put_stacks(call, data, list, kept);
	json_end(json);
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

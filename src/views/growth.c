/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some thousand stacks are looked at: those that have most at any of a few
 * moments. What never has much fills no memory.
 */
#include "views/growth.h"

#include <errno.h>

#include "base/memory.h"
#include "base/sort.h"
#include "views/data.h"
#include "views/to_json.h"

struct candidate {
	uint32_t stack; /* node */
	uint64_t most_bytes;
};

struct work {
	struct query_section *section;
	const struct view_data *data;
	const struct growth_options *options;
	struct growth *growth;
	struct candidate *found; /* by node, then the largest first */
	size_t node_count, found_count;
	uint32_t *group_of_node; /* plus 1 */
	uint32_t *group_of;      /* by stack_id */
	struct tm_error *err;
};

static int no_memory(const struct work *w)
{
	return tm_fail(w->err, -ENOMEM, "no memory for the curves of the stacks");
}

/* ---- which stacks ---- */

static int look_at(struct work *w, uint64_t time_ns, uint64_t *live)
{
	struct query_answer answer;
	const struct query query = {.from_ns = time_ns,
				    .to_ns = time_ns,
				    .filter = w->options->filter,
				    .progress = w->options->progress};
	int rc = query_ask(w->section, &query, &answer, w->err);
	if (rc)
		return rc;
	for (size_t i = 0; i < w->node_count; i++)
		live[i] = 0;
	for (size_t i = 0; i < answer.row_count; i++)
		live[view_node_of(w->data, answer.rows[i].stack_id)] +=
			answer.rows[i].figures.end_bytes;
	for (size_t i = 1; i < w->node_count; i++) {
		w->found[i].stack = (uint32_t)i;
		if (live[i] > w->found[i].most_bytes)
			w->found[i].most_bytes = live[i];
	}
	query_answer_done(&answer);
	return 0;
}

static int by_most(const void *a, const void *b, void *ctx)
{
	const struct candidate *x = a, *y = b;
	(void)ctx;
	if (x->most_bytes != y->most_bytes)
		return x->most_bytes > y->most_bytes ? -1 : 1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

static int find_stacks(struct work *w)
{
	/* In thousandths, and not in step with what a program does in a regular way. */
	static const uint16_t looks[] = {0, 173, 389, 571, 787, 1000};
	const struct growth *growth = w->growth;
	uint64_t width_ns = growth->to_ns - growth->from_ns;
	w->node_count = view_node_count(w->data);
	w->found = tm_alloc_array(w->node_count + 1, sizeof *w->found);
	uint64_t *live = tm_alloc_array(w->node_count + 1, sizeof *live);
	int rc = w->found && live ? 0 : no_memory(w);
	for (size_t i = 0; i < sizeof looks / sizeof looks[0] && !rc; i++)
		rc = look_at(w, growth->from_ns + width_ns / 1000 * looks[i], live);
	tm_free(live);
	if (rc)
		return rc;
	sort_array(w->found, w->node_count, sizeof *w->found, by_most, NULL);
	while (w->found_count < w->node_count && w->found_count < GROWTH_STACKS_MAX &&
	       w->found[w->found_count].most_bytes > 0)
		w->found_count++;
	return 0;
}

static int make_groups(struct work *w, size_t stack_count)
{
	w->group_of_node = tm_alloc_array(w->node_count + 1, sizeof *w->group_of_node);
	w->group_of = tm_alloc_array(stack_count + 1, sizeof *w->group_of);
	if (!w->group_of_node || !w->group_of)
		return no_memory(w);
	for (size_t i = 0; i < w->found_count; i++)
		w->group_of_node[w->found[i].stack] = (uint32_t)i + 1;
	for (size_t i = 0; i < stack_count; i++)
		w->group_of[i] = w->group_of_node[view_node_of(w->data, (uint32_t)i)] - 1;
	return 0;
}

/* ---- their curves ---- */

static int take_curves(struct work *w, const struct query_timeline *timeline)
{
	struct growth *growth = w->growth;
	/* Moments must differ; times are whole microseconds. */
	bool is_short = growth->to_ns - growth->from_ns < GROWTH_MOMENTS * 1000;
	size_t count = is_short ? 0 : timeline->point_count;
	growth->times_ns = tm_alloc_array(count + 1, sizeof *growth->times_ns);
	growth->bytes = tm_alloc_array((w->found_count + 1) * (count + 1), sizeof *growth->bytes);
	growth->rows = tm_alloc_array(w->found_count + 1, sizeof *growth->rows);
	if (!growth->times_ns || !growth->bytes || !growth->rows)
		return no_memory(w);
	growth->moment_count = count;
	for (size_t i = 0; i < count; i++) {
		growth->times_ns[i] = timeline->points[i].end_ns;
		growth->bytes[i] = timeline->points[i].live_bytes;
	}
	if (count < GROWTH_MOMENTS_MIN)
		return 0;
	growth_judge(growth->times_ns, growth->bytes, count, &growth->total);
	for (size_t k = 0; k < timeline->curve_count; k++) {
		uint64_t *bytes = growth->bytes + (k + 1) * count;
		struct growth_row *row = &growth->rows[growth->row_count++];
		for (size_t i = 0; i < count; i++)
			bytes[i] = timeline->curves[k].points[i].live_bytes;
		row->stack = w->found[timeline->curves[k].group].stack;
		growth_judge(growth->times_ns, bytes, count, &row->line);
	}
	return 0;
}

static bool fills(const struct growth_line *line)
{
	return (line->shape == GROWTH_STEADY || line->shape == GROWTH_STEPS) && line->slope > 0;
}

static int by_filling(const void *a, const void *b, void *ctx)
{
	const struct growth_row *x = a, *y = b;
	(void)ctx;
	if (fills(&x->line) != fills(&y->line))
		return fills(&x->line) ? -1 : 1;
	if (x->line.slope != y->line.slope)
		return x->line.slope > y->line.slope ? -1 : 1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

static void add_shares(struct growth *growth)
{
	double grown = 0;
	for (size_t i = 0; i < growth->row_count; i++) {
		int64_t more = growth->rows[i].line.growth_bytes;
		grown += more > 0 ? (double)more : 0;
	}
	for (size_t i = 0; i < growth->row_count; i++) {
		struct growth_row *row = &growth->rows[i];
		if (row->line.growth_bytes > 0)
			row->share = (double)row->line.growth_bytes / grown;
	}
}

static int make_curves(struct work *w)
{
	struct growth *growth = w->growth;
	struct query_timeline timeline;
	const struct query_timeline_options options = {
		.from_ns = growth->from_ns,
		.to_ns = growth->to_ns,
		.points = GROWTH_MOMENTS,
		.filter = w->options->filter,
		.group_of = w->group_of,
		.group_count = w->found_count,
		.progress = w->options->progress,
	};
	int rc = query_timeline(w->section, &options, &timeline, w->err);
	if (rc)
		return rc;
	rc = take_curves(w, &timeline);
	query_timeline_done(&timeline);
	if (rc)
		return rc;
	sort_array(growth->rows, growth->row_count, sizeof *growth->rows, by_filling, NULL);
	add_shares(growth);
	return 0;
}

/* ---- the limit ---- */

static const struct trace_sample *last_sample(const struct work *w)
{
	const struct trace_sample *samples, *last = NULL;
	struct tm_error ignored;
	size_t count;
	if (trace_reader_samples(query_reader(w->section), &samples, &count, &ignored))
		return NULL;
	for (size_t i = 0; i < count && samples[i].time_ns <= w->options->to_ns; i++)
		last = &samples[i];
	return last;
}

static void find_limit(struct work *w)
{
	struct growth *growth = w->growth;
	const struct trace_sample *last = last_sample(w);
	uint64_t machine_bytes = w->data->input.meta->machine_bytes;
	bool in_cgroup = last && last->cgroup_limit_bytes &&
			 (!machine_bytes || last->cgroup_limit_bytes < machine_bytes);
	growth->used_bytes = last && last->rss_bytes ? last->rss_bytes : growth->total.last_bytes;
	if (w->options->limit_bytes) {
		growth->limit = GROWTH_LIMIT_GIVEN;
		growth->limit_bytes = w->options->limit_bytes;
	} else if (in_cgroup) {
		growth->limit = GROWTH_LIMIT_CGROUP;
		growth->limit_bytes = last->cgroup_limit_bytes;
		if (last->cgroup_bytes)
			growth->used_bytes = last->cgroup_bytes;
	} else if (machine_bytes) {
		growth->limit = GROWTH_LIMIT_MACHINE;
		growth->limit_bytes = machine_bytes;
	}
}

double growth_full_in_s(const struct growth *growth, const struct growth_line *line)
{
	if (growth->limit == GROWTH_NO_LIMIT || !fills(line))
		return -1;
	if (growth->used_bytes >= growth->limit_bytes)
		return 0;
	return (double)(growth->limit_bytes - growth->used_bytes) / line->slope;
}

/* ---- all together ---- */

int growth_make(struct query_section *section, const struct view_data *data,
		const struct growth_options *options, struct growth *ret, struct tm_error *err)
{
	uint64_t tenth_ns = (options->to_ns - options->from_ns) / 10;
	struct growth growth = {.from_ns = options->from_ns + tenth_ns,
				.to_ns = options->to_ns - tenth_ns};
	struct work w = {.section = section,
			 .data = data,
			 .options = options,
			 .growth = &growth,
			 .err = err};
	int rc = find_stacks(&w);
	if (!rc)
		rc = make_groups(&w, data->input.stack_count);
	if (!rc)
		rc = make_curves(&w);
	tm_free(w.found);
	tm_free(w.group_of_node);
	tm_free(w.group_of);
	if (rc) {
		growth_done(&growth);
		return rc;
	}
	find_limit(&w);
	*ret = growth;
	return 0;
}

void growth_done(struct growth *growth)
{
	tm_free(growth->times_ns);
	tm_free(growth->bytes);
	tm_free(growth->rows);
	*growth = (struct growth){0};
}

/* ---- JSON ---- */

static void put_numbers(struct json *json, const char *key, const uint64_t *numbers, size_t count)
{
	json_begin_array(json, key);
	for (size_t i = 0; i < count; i++)
		json_u64(json, NULL, numbers[i]);
	json_end(json);
}

static void put_line(struct json *json, const struct growth *growth, const struct growth_line *line)
{
	double full_in_s = growth_full_in_s(growth, line);
	json_string(json, "shape", growth_shape_names[line->shape]);
	json_double(json, "slope_bytes_per_s", line->slope);
	json_double(json, "fit", line->fit);
	json_u64(json, "first_bytes", line->first_bytes);
	json_u64(json, "last_bytes", line->last_bytes);
	json_i64(json, "growth_bytes", line->growth_bytes);
	json_u64(json, "low_bytes", line->low_bytes);
	json_u64(json, "high_bytes", line->high_bytes);
	if (full_in_s >= 0)
		json_double(json, "full_in_s", full_in_s);
	else
		json_null(json, "full_in_s");
	put_numbers(json, "live_bytes", line->bytes, line->bytes ? growth->moment_count : 0);
}

void growth_json(struct json *json, const struct growth *growth, const struct view_data *data,
		 size_t limit)
{
	static const char *const limits[] = {
		[GROWTH_LIMIT_GIVEN] = "given",
		[GROWTH_LIMIT_CGROUP] = "cgroup",
		[GROWTH_LIMIT_MACHINE] = "machine",
	};
	json_u64(json, "from_ns", growth->from_ns);
	json_u64(json, "to_ns", growth->to_ns);
	put_numbers(json, "times_ns", growth->times_ns, growth->moment_count);
	json_bool(json, "judged", growth->moment_count >= GROWTH_MOMENTS_MIN);
	json_string(json, "limit_source", limits[growth->limit]);
	if (growth->limit)
		json_u64(json, "limit_bytes", growth->limit_bytes);
	else
		json_null(json, "limit_bytes");
	json_u64(json, "used_bytes", growth->used_bytes);
	json_begin_object(json, "total");
	put_line(json, growth, &growth->total);
	json_end(json);
	json_u64(json, "stack_count", growth->row_count);
	json_begin_array(json, "stacks");
	for (size_t i = 0; i < growth->row_count && i < limit; i++) {
		json_begin_object(json, NULL);
		json_u64(json, "stack", growth->rows[i].stack);
		json_double(json, "share", growth->rows[i].share);
		put_line(json, growth, &growth->rows[i].line);
		view_json_frames(json, "frames", data, growth->rows[i].stack);
		json_end(json);
	}
	json_end(json);
}

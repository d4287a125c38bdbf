/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of `tidemark diff` that are tables: sizes, lifetimes, threads, the heap over time.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "cli/comparison.h"
#include "cli/grid.h"
#include "cli/progress.h"
#include "cli/report_put.h"
#include "model/query.h"

enum { STEPS = 20 };

static const struct grid_column columns[] = {
	{"", GRID_RIGHT, OUT_DIM, 0},        {"before", GRID_RIGHT, OUT_PLAIN, 0},
	{"after", GRID_RIGHT, OUT_PLAIN, 0}, {"change", GRID_RIGHT, OUT_FIGURE, 0},
	{"", GRID_RIGHT, OUT_PLAIN, 0},
};

static void add_row(struct grid *grid, const struct comparison_value *value, const char *name)
{
	grid_cell(grid, "%s", name);
	grid_cell(grid, "%s", comparison_before(value).text);
	grid_cell(grid, "%s", comparison_after(value).text);
	grid_cell(grid, "%s", comparison_change(value).text);
	grid_cell(grid, "%s", comparison_percent(value).text);
}

static uint64_t scaled(const struct comparison *c, uint64_t count)
{
	return c->scale == 1 ? count : (uint64_t)((double)count * c->scale + 0.5);
}

/* ---- sizes and lifetimes ---- */

static bool is_sizes(const struct comparison_section *section)
{
	return section->want == QUERY_SIZES;
}

static void count_buckets(const struct side *side, bool sizes, uint64_t counts[TRACE_BUCKETS])
{
	const struct query_answer *answer = &side->answer;
	const struct query_bucket *list = sizes ? answer->sizes : answer->lives;
	size_t count = sizes ? answer->size_count : answer->life_count;
	memset(counts, 0, TRACE_BUCKETS * sizeof *counts);
	for (size_t i = 0; i < count; i++)
		if (list[i].bucket < TRACE_BUCKETS)
			counts[list[i].bucket] += list[i].count;
}

static uint64_t bucket_from(unsigned bucket)
{
	return bucket ? 1ull << (bucket - 1) : 0;
}

int comparison_buckets_text(const struct comparison *c, const struct comparison_section *section,
			    struct tm_error *err)
{
	uint64_t before[TRACE_BUCKETS], after[TRACE_BUCKETS];
	struct grid grid = {.columns = columns, .column_count = 5};
	bool sizes = is_sizes(section);
	(void)err;
	count_buckets(&c->before, sizes, before);
	count_buckets(&c->after, sizes, after);
	put_heading(c->out, sizes ? "Allocations by size" : "Frees by lifetime", 0, 0);
	for (unsigned i = 0; i < TRACE_BUCKETS; i++) {
		struct comparison_value value = {.unit = VALUE_COUNT,
						 .before_known = true,
						 .after_known = true,
						 .before = scaled(c, before[i]),
						 .after = after[i]};
		char name[60];
		uint64_t from = bucket_from(i);
		if (!before[i] && !after[i])
			continue;
		snprintf(name, sizeof name, "from %s",
			 sizes ? units_bytes(from).text : units_duration(from * 1000).text);
		add_row(&grid, &value, name);
	}
	grid_print(&grid, c->out, 0);
	grid_done(&grid);
	return 0;
}

int comparison_buckets_json(const struct comparison *c, const struct comparison_section *section,
			    struct json *json, struct tm_error *err)
{
	uint64_t before[TRACE_BUCKETS], after[TRACE_BUCKETS];
	(void)err;
	count_buckets(&c->before, is_sizes(section), before);
	count_buckets(&c->after, is_sizes(section), after);
	json_begin_array(json, section->name);
	for (unsigned i = 0; i < TRACE_BUCKETS; i++) {
		if (!before[i] && !after[i])
			continue;
		json_begin_object(json, NULL);
		json_u64(json, is_sizes(section) ? "from_bytes" : "from_us", bucket_from(i));
		json_u64(json, "before", scaled(c, before[i]));
		json_u64(json, "after", after[i]);
		json_end(json);
	}
	json_end(json);
	return 0;
}

/* ---- threads ---- */

/* Threads of one name: what workers are called matters, not their number. */
struct named {
	char name[16];
	struct query_thread before, after;
	uint64_t before_count, after_count;
};

struct named_list {
	struct named *list;
	size_t count, room;
};

static struct named *find_named(struct named_list *names, const char *name)
{
	for (size_t i = 0; i < names->count; i++)
		if (!strncmp(names->list[i].name, name, sizeof names->list[i].name))
			return &names->list[i];
	if (names->count == names->room) {
		size_t room = names->room * 2 + 16;
		void *grown = tm_grow_array(names->list, room, sizeof *names->list);
		if (!grown)
			return NULL;
		names->list = grown;
		names->room = room;
	}
	struct named *made = &names->list[names->count++];
	memset(made, 0, sizeof *made);
	snprintf(made->name, sizeof made->name, "%s", name);
	return made;
}

static int add_threads(struct named_list *names, const struct side *side, bool is_after)
{
	for (size_t i = 0; i < side->answer.thread_count; i++) {
		const struct query_thread *did = &side->answer.threads[i];
		bool known = did->thread_id < side->input.thread_count;
		const char *name = known ? side->input.threads[did->thread_id].name : "";
		struct named *named = find_named(names, *name ? name : "?");
		if (!named)
			return -ENOMEM;
		struct query_thread *sum = is_after ? &named->after : &named->before;
		*(is_after ? &named->after_count : &named->before_count) += 1;
		sum->allocations += did->allocations;
		sum->allocated_bytes += did->allocated_bytes;
		sum->frees += did->frees;
		sum->temporary += did->temporary;
	}
	return 0;
}

static int make_threads(const struct comparison *c, struct named_list *names, struct tm_error *err)
{
	int code = add_threads(names, &c->before, false);
	if (!code)
		code = add_threads(names, &c->after, true);
	if (code) {
		tm_free(names->list);
		return tm_fail(err, code, "out of memory");
	}
	return 0;
}

int comparison_threads_text(const struct comparison *c, const struct comparison_section *section,
			    struct tm_error *err)
{
	struct named_list names = {0};
	struct grid grid = {.columns = columns, .column_count = 5};
	(void)section;
	int code = make_threads(c, &names, err);
	if (code)
		return code;
	put_heading(c->out, "Allocations by threads of a name", 0, 0);
	for (size_t i = 0; i < names.count; i++) {
		struct named *one = &names.list[i];
		struct comparison_value value = {.unit = VALUE_COUNT,
						 .before_known = true,
						 .after_known = true,
						 .before = scaled(c, one->before.allocations),
						 .after = one->after.allocations};
		struct text name = {0};
		text_put_visible(&name, one->name, strlen(one->name));
		if (one->before_count != 1 || one->after_count != 1)
			text_print(&name, " (%llu, %llu threads)",
				   (unsigned long long)one->before_count,
				   (unsigned long long)one->after_count);
		add_row(&grid, &value, text_string(&name));
		text_done(&name);
	}
	grid_print(&grid, c->out, 0);
	grid_done(&grid);
	tm_free(names.list);
	return 0;
}

static void json_thread(struct json *json, const char *key, const struct query_thread *did,
			uint64_t count)
{
	json_begin_object(json, key);
	json_u64(json, "threads", count);
	json_u64(json, "allocations", did->allocations);
	json_u64(json, "allocated_bytes", did->allocated_bytes);
	json_u64(json, "frees", did->frees);
	json_u64(json, "temporary_allocations", did->temporary);
	json_end(json);
}

int comparison_threads_json(const struct comparison *c, const struct comparison_section *section,
			    struct json *json, struct tm_error *err)
{
	struct named_list names = {0};
	int code = make_threads(c, &names, err);
	if (code)
		return code;
	json_begin_array(json, section->name);
	for (size_t i = 0; i < names.count; i++) {
		const struct named *one = &names.list[i];
		json_begin_object(json, NULL);
		json_string(json, "name", one->name);
		json_thread(json, "before", &one->before, one->before_count);
		json_thread(json, "after", &one->after, one->after_count);
		json_end(json);
	}
	json_end(json);
	tm_free(names.list);
	return 0;
}

/* ---- the heap over time ---- */

/* The largest sum of live bytes in each of STEPS parts of the side's time. */
static int make_steps(const struct side *side, uint64_t steps[STEPS], struct tm_error *err)
{
	struct progress progress;
	const struct query_timeline_options options = {
		.from_ns = side->from_ns,
		.to_ns = side->to_ns,
		.points = 50 * STEPS,
		.filter = side->bound,
		.progress = {.fn = progress_tell_fn, .ctx = &progress},
	};
	struct query_timeline timeline;
	progress_begin(&progress, "reading events", "events");
	int code = query_timeline(side->query, &options, &timeline, err);
	progress_end(&progress);
	if (code)
		return code;
	double whole = (double)(side->to_ns - side->from_ns) + 1;
	memset(steps, 0, STEPS * sizeof *steps);
	for (size_t i = 0; i < timeline.point_count; i++) {
		const struct query_point *point = &timeline.points[i];
		uint64_t start =
			point->start_ns > side->from_ns ? point->start_ns - side->from_ns : 0;
		uint64_t end = point->end_ns > side->from_ns ? point->end_ns - side->from_ns : 0;
		unsigned first = (unsigned)((double)start * STEPS / whole);
		unsigned last = (unsigned)((double)end * STEPS / whole);
		for (unsigned k = first; k <= last && k < STEPS; k++)
			if (point->max_live_bytes > steps[k])
				steps[k] = point->max_live_bytes;
	}
	query_timeline_done(&timeline);
	return 0;
}

int comparison_timeline_text(const struct comparison *c, const struct comparison_section *section,
			     struct tm_error *err)
{
	uint64_t before[STEPS], after[STEPS];
	struct grid grid = {.columns = columns, .column_count = 5};
	(void)section;
	int code = make_steps(&c->before, before, err);
	if (!code)
		code = make_steps(&c->after, after, err);
	if (code)
		return code;
	put_heading(c->out, "Largest sum of live bytes, by part of the time", 0, 0);
	for (unsigned i = 0; i < STEPS; i++) {
		struct comparison_value value = {.unit = VALUE_BYTES,
						 .before_known = true,
						 .after_known = true,
						 .before = before[i],
						 .after = after[i]};
		char name[24];
		snprintf(name, sizeof name, "to %u %%", (i + 1) * 100 / STEPS);
		add_row(&grid, &value, name);
	}
	grid_print(&grid, c->out, 0);
	grid_done(&grid);
	return 0;
}

int comparison_timeline_json(const struct comparison *c, const struct comparison_section *section,
			     struct json *json, struct tm_error *err)
{
	uint64_t before[STEPS], after[STEPS];
	int code = make_steps(&c->before, before, err);
	if (!code)
		code = make_steps(&c->after, after, err);
	if (code)
		return code;
	json_begin_array(json, section->name);
	for (unsigned i = 0; i < STEPS; i++) {
		json_begin_object(json, NULL);
		json_u64(json, "to_percent", (i + 1) * 100 / STEPS);
		json_u64(json, "before_bytes", before[i]);
		json_u64(json, "after_bytes", after[i]);
		json_end(json);
	}
	json_end(json);
	return 0;
}

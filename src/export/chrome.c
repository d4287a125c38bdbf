/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Trace Event Format, for chrome://tracing and ui.perfetto.dev: curves as
 * counters, threads by name, and a memory sample per stack at the moment that
 * the mode means. Times are microseconds.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "export/formats.h"
#include "export/rows.h"
#include "export/trie.h"

enum { POINTS = 2000, NAME_BYTES = 24 };

struct chrome {
	const struct export_input *input;
	struct outlet *outlet;
	struct json json;
	uint32_t pid;
	uint64_t moment_ns; /* of the samples */
};

static void begin_event(struct chrome *c, const char *phase, const char *name, uint64_t time_ns)
{
	json_begin_object(&c->json, NULL);
	json_string(&c->json, "ph", phase);
	json_string(&c->json, "name", name);
	json_u64(&c->json, "pid", c->pid);
	json_double(&c->json, "ts", (double)time_ns / 1000);
}

static void put_counter(struct chrome *c, uint64_t time_ns, const char *name, uint64_t value)
{
	begin_event(c, "C", name, time_ns);
	json_begin_object(&c->json, "args");
	json_u64(&c->json, "value", value);
	json_end(&c->json);
	json_end(&c->json);
}

static void put_name(struct chrome *c, const char *kind, uint32_t tid, const char *name)
{
	begin_event(c, "M", kind, 0);
	json_u64(&c->json, "tid", tid);
	json_begin_object(&c->json, "args");
	json_string(&c->json, "name", name);
	json_end(&c->json);
	json_end(&c->json);
}

static int put_threads(struct chrome *c)
{
	const struct view_input *facts = c->input->facts;
	int code = 0;
	char title[EXPORT_TITLE];
	put_name(c, "process_name", c->pid, export_title(c->input, title));
	for (size_t i = 0; !code && i < facts->thread_count; i++) {
		const struct trace_thread *thread = &facts->threads[i];
		put_name(c, "thread_name", thread->tid, thread->name);
		code = outlet_flush(c->outlet);
	}
	return code;
}

/* The largest within a point where it was, so that no peak is lost. */
static int put_curves(struct chrome *c, const struct query_timeline *timeline)
{
	uint64_t largest = 0;
	int code = 0;
	for (size_t i = 0; !code && i < timeline->point_count; i++) {
		const struct query_point *point = &timeline->points[i];
		if (point->max_live_bytes > point->live_bytes &&
		    point->max_live_time_ns < point->end_ns)
			put_counter(c, point->max_live_time_ns, "live bytes",
				    point->max_live_bytes);
		if (point->max_live_bytes > largest) {
			largest = point->max_live_bytes;
			c->moment_ns = point->max_live_time_ns;
		}
		put_counter(c, point->end_ns, "live bytes", point->live_bytes);
		put_counter(c, point->end_ns, "live blocks", point->live_blocks);
		put_counter(c, point->end_ns, "allocations", point->allocations);
		put_counter(c, point->end_ns, "allocated bytes", point->allocated_bytes);
		if (point->rss_bytes)
			put_counter(c, point->end_ns, "resident bytes", point->rss_bytes);
		if (point->mapped_bytes)
			put_counter(c, point->end_ns, "mapped bytes", point->mapped_bytes);
		code = outlet_flush(c->outlet);
	}
	return code;
}

static int put_frames(struct chrome *c, const struct trie *trie)
{
	struct text name = {0};
	char number[NAME_BYTES];
	int code = 0;
	json_begin_object(&c->json, "stackFrames");
	for (size_t i = 1; !code && i < trie->count; i++) {
		const struct trie_item *item = &trie->items[i];
		const struct view_frame *frame = view_frame_at(trie->data, item->frame);
		snprintf(number, sizeof number, "%zu", i);
		text_clear(&name);
		export_frame_name(&name, frame);
		json_begin_object(&c->json, number);
		json_string(&c->json, "category", view_module_name(frame->module));
		json_string(&c->json, "name", text_string(&name));
		snprintf(number, sizeof number, "%" PRIu32, item->parent);
		if (item->parent)
			json_string(&c->json, "parent", number);
		json_end(&c->json);
		code = outlet_flush(c->outlet);
	}
	json_end(&c->json);
	text_done(&name);
	return code;
}

static int put_samples(struct chrome *c, struct trie *trie, const struct export_rows *rows)
{
	char number[NAME_BYTES];
	int code = 0;
	json_begin_array(&c->json, "samples");
	for (size_t i = 0; !code && i < rows->count; i++) {
		uint32_t item;
		code = trie_item(trie, rows->list[i]->stack, &item);
		if (code)
			break;
		snprintf(number, sizeof number, "%" PRIu32, item);
		json_begin_object(&c->json, NULL);
		json_u64(&c->json, "cpu", 0);
		json_u64(&c->json, "tid", c->pid);
		json_double(&c->json, "ts", (double)c->moment_ns / 1000);
		json_string(&c->json, "name", view_columns[c->input->cost].key);
		json_string(&c->json, "sf", number);
		json_u64(&c->json, "weight", rows->list[i]->figures.of[c->input->cost]);
		json_end(&c->json);
		code = outlet_flush(c->outlet);
	}
	json_end(&c->json);
	return code;
}

static int put_stacks(struct chrome *c, struct tm_error *err)
{
	struct export_rows rows;
	struct trie trie = {0};
	int code = export_rows_choose(&rows, c->input, 1u << c->input->cost, err);
	if (code)
		return code;
	code = trie_init(&trie, c->input->data, TRIE_FUNCTIONS);
	if (!code)
		code = put_samples(c, &trie, &rows);
	if (!code)
		code = put_frames(c, &trie);
	trie_done(&trie);
	export_rows_done(&rows);
	return code;
}

static int write_chrome(const struct export_input *input, struct outlet *outlet,
			struct tm_error *err)
{
	struct chrome c = {
		.input = input,
		.outlet = outlet,
		.json = {.out = &outlet->text},
		.pid = input->facts->meta->pid,
	};
	const struct query_timeline_options options = {
		.from_ns = input->from_ns,
		.to_ns = input->to_ns,
		.points = POINTS,
		.filter = input->filter,
		.progress = input->progress,
	};
	struct query_timeline timeline;
	int code = query_timeline(input->section, &options, &timeline, err);
	if (code)
		return code;
	json_begin_object(&c.json, NULL);
	json_string(&c.json, "displayTimeUnit", "ns");
	json_begin_array(&c.json, "traceEvents");
	code = put_threads(&c);
	if (!code)
		code = put_curves(&c, &timeline);
	json_end(&c.json);
	if (input->mode->bytes != VIEW_PEAK_BYTES)
		c.moment_ns = input->to_ns;
	if (!code)
		code = put_stacks(&c, err);
	json_end(&c.json);
	text_put_char(&outlet->text, '\n');
	query_timeline_done(&timeline);
	return code;
}

const struct export_format export_chrome = {
	.name = "chrome",
	.help = "Trace Event JSON, for ui.perfetto.dev and chrome://tracing: curves and samples",
	.suffix = ".trace.json",
	.type = "application/json",
	.write = write_chrome,
};

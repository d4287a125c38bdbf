/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Firefox Profiler's processed format: tables as columns. One thread has the
 * stacks with the chosen figure as weights, a counter has the live bytes over
 * time. Strings: the name of function f is number 2f, its file 2f + 1, then come
 * the modules.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "base/memory.h"
#include "export/formats.h"
#include "export/rows.h"
#include "export/strings.h"
#include "export/trie.h"

enum { VERSION = 44, GECKO_VERSION = 24, POINTS = 1000, TYPE_LIBRARY = 1 };

struct firefox {
	const struct export_input *input;
	struct outlet *outlet;
	struct json json;
	struct export_rows rows;
	struct trie trie;
	uint32_t *items;       /* by row */
	uint32_t *function_of; /* by frame */
	uint32_t *frame_of;    /* by function: one of its frames */
	uint32_t function_count;
	struct strings modules;
};

/* ---- columns ---- */

typedef void (*cell_fn)(struct firefox *f, uint32_t index);

static int put_column(struct firefox *f, const char *key, size_t count, cell_fn cell)
{
	int code = 0;
	json_begin_array(&f->json, key);
	for (uint32_t i = 0; !code && i < count; i++) {
		cell(f, i);
		code = outlet_flush(f->outlet);
	}
	json_end(&f->json);
	return code;
}

struct column {
	const char *key;
	cell_fn cell;
};

static int put_table(struct firefox *f, const char *key, size_t rows, const struct column *columns,
		     size_t count)
{
	int code = 0;
	json_begin_object(&f->json, key);
	for (size_t i = 0; !code && i < count; i++)
		code = put_column(f, columns[i].key, rows, columns[i].cell);
	json_u64(&f->json, "length", rows);
	return code;
}

static const struct view_frame *frame_at(const struct firefox *f, uint32_t index)
{
	return view_frame_at(f->input->data, index);
}

static const struct view_frame *function_at(const struct firefox *f, uint32_t index)
{
	return frame_at(f, f->frame_of[index]);
}

static void cell_zero(struct firefox *f, uint32_t index)
{
	(void)index;
	json_u64(&f->json, NULL, 0);
}

static void cell_null(struct firefox *f, uint32_t index)
{
	(void)index;
	json_null(&f->json, NULL);
}

static void cell_false(struct firefox *f, uint32_t index)
{
	(void)index;
	json_bool(&f->json, NULL, false);
}

static void cell_prefix(struct firefox *f, uint32_t index)
{
	uint32_t parent = f->trie.items[index + 1].parent;
	if (parent)
		json_u64(&f->json, NULL, parent - 1u);
	else
		json_null(&f->json, NULL);
}

static void cell_stack_frame(struct firefox *f, uint32_t index)
{
	json_u64(&f->json, NULL, f->trie.items[index + 1].frame);
}

static void cell_address(struct firefox *f, uint32_t index)
{
	uint64_t address = frame_at(f, index)->address;
	json_i64(&f->json, NULL, address <= INT64_MAX ? (int64_t)address : -1);
}

static void cell_function(struct firefox *f, uint32_t index)
{
	json_u64(&f->json, NULL, f->function_of[index]);
}

static void cell_line(struct firefox *f, uint32_t index)
{
	if (frame_at(f, index)->line)
		json_u64(&f->json, NULL, frame_at(f, index)->line);
	else
		json_null(&f->json, NULL);
}

static void cell_name(struct firefox *f, uint32_t index)
{
	json_u64(&f->json, NULL, 2ull * index);
}

static void cell_file(struct firefox *f, uint32_t index)
{
	if (function_at(f, index)->file)
		json_u64(&f->json, NULL, 2ull * index + 1);
	else
		json_null(&f->json, NULL);
}

static void cell_resource(struct firefox *f, uint32_t index)
{
	uint32_t number;
	bool known = strings_find(&f->modules, function_at(f, index)->module, &number);
	json_i64(&f->json, NULL, known ? (int64_t)number : -1);
}

static void cell_module_name(struct firefox *f, uint32_t index)
{
	json_u64(&f->json, NULL, 2ull * f->function_count + index);
}

static void cell_library(struct firefox *f, uint32_t index)
{
	(void)index;
	json_u64(&f->json, NULL, TYPE_LIBRARY);
}

static void cell_sample_stack(struct firefox *f, uint32_t index)
{
	if (f->items[index])
		json_u64(&f->json, NULL, f->items[index] - 1u);
	else
		json_null(&f->json, NULL);
}

static void cell_sample_time(struct firefox *f, uint32_t index)
{
	(void)index;
	json_double(&f->json, NULL, (double)f->input->to_ns / 1e6);
}

static void cell_weight(struct firefox *f, uint32_t index)
{
	json_u64(&f->json, NULL, f->rows.list[index]->figures.of[f->input->cost]);
}

#define TABLE(f, key, rows, columns) \
	put_table(f, key, rows, columns, sizeof columns / sizeof columns[0])

static int put_stack_tables(struct firefox *f)
{
	static const struct column stacks[] = {{"frame", cell_stack_frame},
					       {"prefix", cell_prefix},
					       {"category", cell_zero},
					       {"subcategory", cell_zero}};
	static const struct column frames[] = {
		{"address", cell_address},    {"inlineDepth", cell_zero},
		{"category", cell_zero},      {"subcategory", cell_zero},
		{"func", cell_function},      {"nativeSymbol", cell_null},
		{"innerWindowID", cell_zero}, {"implementation", cell_null},
		{"line", cell_line},          {"column", cell_null},
		{"optimizations", cell_null},
	};
	static const struct column functions[] = {
		{"name", cell_name},         {"isJS", cell_false},    {"relevantForJS", cell_false},
		{"resource", cell_resource}, {"fileName", cell_file}, {"lineNumber", cell_null},
		{"columnNumber", cell_null},
	};
	static const struct column resources[] = {{"lib", cell_null},
						  {"name", cell_module_name},
						  {"host", cell_null},
						  {"type", cell_library}};
	int code = TABLE(f, "stackTable", f->trie.count - 1, stacks);
	json_end(&f->json);
	if (!code)
		code = TABLE(f, "frameTable", view_frame_count(f->input->data), frames);
	json_end(&f->json);
	if (!code)
		code = TABLE(f, "funcTable", f->function_count, functions);
	json_end(&f->json);
	if (!code)
		code = TABLE(f, "resourceTable", f->modules.count, resources);
	json_end(&f->json);
	return code;
}

static int put_samples(struct firefox *f)
{
	static const struct column samples[] = {
		{"stack", cell_sample_stack}, {"time", cell_sample_time}, {"weight", cell_weight}};
	bool bytes = view_columns[f->input->cost].unit == VIEW_UNIT_BYTES;
	int code = TABLE(f, "samples", f->rows.count, samples);
	json_string(&f->json, "weightType", bytes ? "bytes" : "samples");
	json_end(&f->json);
	return code;
}

/* Tables that must be there. */
static void put_empty_tables(struct firefox *f)
{
	static const char *const markers[] = {"data",    "name",  "startTime",
					      "endTime", "phase", "category"};
	static const char *const symbols[] = {"libIndex", "address", "name", "functionSize"};
	json_begin_object(&f->json, "markers");
	for (size_t i = 0; i < sizeof markers / sizeof markers[0]; i++) {
		json_begin_array(&f->json, markers[i]);
		json_end(&f->json);
	}
	json_u64(&f->json, "length", 0);
	json_end(&f->json);
	json_begin_object(&f->json, "nativeSymbols");
	for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
		json_begin_array(&f->json, symbols[i]);
		json_end(&f->json);
	}
	json_u64(&f->json, "length", 0);
	json_end(&f->json);
}

static int put_strings(struct firefox *f)
{
	struct text name = {0};
	int code = 0;
	json_begin_array(&f->json, "stringArray");
	for (uint32_t i = 0; !code && i < f->function_count; i++) {
		const struct view_frame *frame = function_at(f, i);
		text_clear(&name);
		export_frame_name(&name, frame);
		json_string(&f->json, NULL, text_string(&name));
		json_string(&f->json, NULL, frame->file ? frame->file : "");
		code = outlet_flush(f->outlet);
	}
	for (size_t i = 0; i < f->modules.count; i++)
		json_string(&f->json, NULL, view_module_name(f->modules.list[i]));
	json_end(&f->json);
	text_done(&name);
	return code;
}

/* ---- the whole ---- */

static void put_meta(struct firefox *f)
{
	struct json *json = &f->json;
	const struct trace_meta *meta = f->input->facts->meta;
	json_begin_object(json, "meta");
	json_u64(json, "version", GECKO_VERSION);
	json_u64(json, "preprocessedProfileVersion", VERSION);
	json_double(json, "startTime", (double)meta->start_unix_ns / 1e6);
	json_u64(json, "interval", 1);
	json_u64(json, "processType", 0);
	json_u64(json, "stackwalk", 1);
	json_bool(json, "debug", false);
	json_bool(json, "symbolicated", true);
	json_bool(json, "usesOnlyOneStackType", true);
	json_bool(json, "doesNotUseFrameImplementation", true);
	json_bool(json, "sourceCodeIsNotOnSearchfox", true);
	char title[EXPORT_TITLE];
	json_string(json, "product", export_title(f->input, title));
	json_begin_array(json, "categories");
	json_begin_object(json, NULL);
	json_string(json, "name", "Other");
	json_string(json, "color", "grey");
	json_begin_array(json, "subcategories");
	json_string(json, NULL, "Other");
	json_end(json);
	json_end(json);
	json_end(json);
	json_begin_array(json, "markerSchema");
	json_end(json);
	json_begin_object(json, "extensions");
	json_u64(json, "length", 0);
	json_end(json);
	json_end(json);
}

static int put_thread(struct firefox *f)
{
	struct json *json = &f->json;
	char pid[16];
	snprintf(pid, sizeof pid, "%" PRIu32, f->input->facts->meta->pid);
	json_begin_object(json, NULL);
	json_string(json, "processType", "default");
	json_u64(json, "processStartupTime", 0);
	json_null(json, "processShutdownTime");
	json_u64(json, "registerTime", 0);
	json_null(json, "unregisterTime");
	json_begin_array(json, "pausedRanges");
	json_end(json);
	json_string(json, "name", view_columns[f->input->cost].key);
	json_bool(json, "isMainThread", true);
	json_string(json, "pid", pid);
	json_u64(json, "tid", f->input->facts->meta->pid);
	int code = put_samples(f);
	put_empty_tables(f);
	if (!code)
		code = put_stack_tables(f);
	if (!code)
		code = put_strings(f);
	json_end(json);
	return code;
}

/* A counter has differences. */
static void put_counter(struct firefox *f, const struct query_timeline *timeline)
{
	struct json *json = &f->json;
	char pid[16];
	snprintf(pid, sizeof pid, "%" PRIu32, f->input->facts->meta->pid);
	json_begin_object(json, NULL);
	json_string(json, "name", "malloc");
	json_string(json, "category", "Memory");
	json_string(json, "description", "live bytes");
	json_string(json, "pid", pid);
	json_u64(json, "mainThreadIndex", 0);
	json_begin_array(json, "sampleGroups");
	json_begin_object(json, NULL);
	json_u64(json, "id", 0);
	json_begin_object(json, "samples");
	json_begin_array(json, "time");
	for (size_t i = 0; i < timeline->point_count; i++)
		json_double(json, NULL, (double)timeline->points[i].end_ns / 1e6);
	json_end(json);
	json_begin_array(json, "count");
	int64_t last = 0;
	for (size_t i = 0; i < timeline->point_count; i++) {
		json_i64(json, NULL, (int64_t)timeline->points[i].live_bytes - last);
		last = (int64_t)timeline->points[i].live_bytes;
	}
	json_end(json);
	json_begin_array(json, "number");
	for (size_t i = 0; i < timeline->point_count; i++)
		json_u64(json, NULL, timeline->points[i].allocations + timeline->points[i].frees);
	json_end(json);
	json_u64(json, "length", timeline->point_count);
	json_end(json);
	json_end(json);
	json_end(json);
	json_end(json);
}

/* Functions by number: frames without a name are functions of their own. */
static int number_functions(struct firefox *f)
{
	size_t frames = view_frame_count(f->input->data), most = 0;
	for (uint32_t i = 0; i < frames; i++)
		if (frame_at(f, i)->function_id >= most)
			most = frame_at(f, i)->function_id + 1u;
	uint32_t *number_of = tm_alloc_array(most + 1, sizeof *number_of); /* plus 1 */
	f->function_of = tm_alloc_array(frames + 1, sizeof *f->function_of);
	f->frame_of = tm_alloc_array(frames + 1, sizeof *f->frame_of);
	int code = number_of && f->function_of && f->frame_of ? 0 : -ENOMEM;
	for (uint32_t i = 0; !code && i < frames; i++) {
		const struct view_frame *frame = frame_at(f, i);
		uint32_t *known = frame->function ? &number_of[frame->function_id] : NULL, module;
		if (known && *known) {
			f->function_of[i] = *known - 1;
			continue;
		}
		f->frame_of[f->function_count] = i;
		f->function_of[i] = f->function_count++;
		if (known)
			*known = f->function_count;
		code = strings_number(&f->modules, frame->module, &module);
	}
	tm_free(number_of);
	return code;
}

static int prepare(struct firefox *f, struct tm_error *err)
{
	int code = export_rows_choose(&f->rows, f->input, 1u << f->input->cost, err);
	if (!code)
		code = trie_init(&f->trie, f->input->data, TRIE_FRAMES);
	if (!code && !(f->items = tm_alloc_array(f->rows.count + 1, sizeof *f->items)))
		code = -ENOMEM;
	for (size_t i = 0; !code && i < f->rows.count; i++)
		code = trie_item(&f->trie, f->rows.list[i]->stack, &f->items[i]);
	return code ? code : number_functions(f);
}

static int put_profile(struct firefox *f, const struct query_timeline *timeline)
{
	struct json *json = &f->json;
	json_begin_object(json, NULL);
	put_meta(f);
	json_begin_array(json, "libs");
	json_end(json);
	json_begin_array(json, "pages");
	json_end(json);
	json_begin_array(json, "counters");
	put_counter(f, timeline);
	json_end(json);
	json_begin_array(json, "profilerOverhead");
	json_end(json);
	json_begin_array(json, "threads");
	int code = put_thread(f);
	json_end(json);
	json_end(json);
	text_put_char(&f->outlet->text, '\n');
	return code;
}

static int write_firefox(const struct export_input *input, struct outlet *outlet,
			 struct tm_error *err)
{
	struct firefox f = {.input = input, .outlet = outlet, .json = {.out = &outlet->text}};
	struct query_timeline timeline;
	const struct query_timeline_options options = {
		.from_ns = input->from_ns,
		.to_ns = input->to_ns,
		.points = POINTS,
		.filter = input->filter,
		.progress = input->progress,
	};
	int code = query_timeline(input->section, &options, &timeline, err);
	if (code)
		return code;
	code = prepare(&f, err);
	if (!code)
		code = put_profile(&f, &timeline);
	query_timeline_done(&timeline);
	export_rows_done(&f.rows);
	trie_done(&f.trie);
	tm_free(f.items);
	tm_free(f.function_of);
	tm_free(f.frame_of);
	strings_done(&f.modules);
	return code;
}

const struct export_format export_firefox = {
	.name = "firefox",
	.help = "JSON for profiler.firefox.com, with the live bytes as a track",
	.suffix = ".firefox.json",
	.type = "application/json",
	.write = write_firefox,
};

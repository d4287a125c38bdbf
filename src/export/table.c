/* SPDX-License-Identifier: Apache-2.0 */
#include "export/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "export/rows.h"

enum { POINTS = 1000, ORDERED_MAX = 1 << 16 };

struct table {
	const struct export_input *input;
	const struct table_sink *sink;
	struct table_value values[TABLE_COLUMNS_MAX];
	size_t count;
	struct text text; /* of a value that is made */
	uint64_t block_count;
};

static void add_number(struct table *t, uint64_t number)
{
	t->values[t->count++] = (struct table_value){.type = TABLE_NUMBER, .number = number};
}

static void add_text(struct table *t, const char *text)
{
	t->values[t->count++] = (struct table_value){
		.type = text ? TABLE_TEXT : TABLE_NONE,
		.text = text,
	};
}

static void add_known(struct table *t, uint64_t number, bool known)
{
	add_number(t, number);
	if (!known)
		t->values[t->count - 1].type = TABLE_NONE;
}

static void add_figures(struct table *t, const struct view_figures *figures)
{
	for (size_t i = 0; i < VIEW_FIGURE_COUNT; i++)
		add_number(t, figures->of[i]);
}

/* Standard errors of estimates: behind all others, and only where blocks were sampled. */
static const char *const error_names[VIEW_FIGURE_COUNT] = {
	[VIEW_ALLOCATED_BYTES] = "allocated_bytes_error",
	[VIEW_FREED_BYTES] = "freed_bytes_error",
	[VIEW_PEAK_BYTES] = "peak_bytes_error",
	[VIEW_UNFREED_BYTES] = "unfreed_bytes_error",
	[VIEW_SURVIVING_BYTES] = "surviving_bytes_error",
};
static const char *const inclusive_error_names[VIEW_FIGURE_COUNT] = {
	[VIEW_ALLOCATED_BYTES] = "inclusive_allocated_bytes_error",
	[VIEW_FREED_BYTES] = "inclusive_freed_bytes_error",
	[VIEW_PEAK_BYTES] = "inclusive_peak_bytes_error",
	[VIEW_UNFREED_BYTES] = "inclusive_unfreed_bytes_error",
	[VIEW_SURVIVING_BYTES] = "inclusive_surviving_bytes_error",
};

static void name_errors(const struct table *t, struct table_columns *columns,
			const char *const names[VIEW_FIGURE_COUNT])
{
	for (size_t i = 0; t->input->facts->sample_bytes && i < VIEW_FIGURE_COUNT; i++)
		if (names[i])
			columns->names[columns->count++] = names[i];
}

static void add_errors(struct table *t, const struct view_figures *figures)
{
	for (size_t i = 0; t->input->facts->sample_bytes && i < VIEW_FIGURE_COUNT; i++)
		if (error_names[i])
			add_number(t, (uint64_t)view_error_bytes(
					      t->input->facts, figures->of[i],
					      figures->of[view_columns[i].partner]));
}

static int end_row(struct table *t)
{
	int code = t->sink->row(t->sink->ctx, t->values, t->count);
	t->count = 0;
	return code;
}

static int begin(const struct table *t, const char *const *names, bool figures, bool inclusive)
{
	static const char *const inclusive_names[] = {
		"inclusive_allocations",
		"inclusive_allocated_bytes",
		"inclusive_frees",
		"inclusive_freed_bytes",
		"inclusive_temporary",
		"inclusive_failed",
		"inclusive_peak_allocations",
		"inclusive_peak_bytes",
		"inclusive_unfreed_allocations",
		"inclusive_unfreed_bytes",
		"inclusive_surviving_allocations",
		"inclusive_surviving_bytes",
	};
	struct table_columns columns = {0};
	for (; *names; names++)
		columns.names[columns.count++] = *names;
	for (size_t i = 0; figures && i < VIEW_FIGURE_COUNT; i++)
		columns.names[columns.count++] = view_columns[i].key;
	for (size_t i = 0; inclusive && i < VIEW_FIGURE_COUNT; i++)
		columns.names[columns.count++] = inclusive_names[i];
	if (figures)
		name_errors(t, &columns, error_names);
	if (inclusive)
		name_errors(t, &columns, inclusive_error_names);
	return t->sink->begin(t->sink->ctx, &columns);
}

/* ---- the views of views/views.h ---- */

static int run_view(struct table *t, const struct view *view, struct tm_error *err)
{
	static const char *const names[] = {"name", "function", "module", "file",
					    "line", "package",  NULL};
	struct view_rows rows;
	struct view by = *view;
	if (view->flat)
		by.order = t->input->cost;
	int code = view_fill(&by, t->input->data, &rows, err);
	if (code)
		return code;
	code = begin(t, names, true, view->flat);
	for (size_t i = 0; !code && i < rows.count && (!t->input->limit || i < t->input->limit);
	     i++) {
		const struct view_row *row = &rows.rows[i];
		text_clear(&t->text);
		view_row_name(&t->text, &by, row);
		add_text(t, text_string(&t->text));
		add_text(t, row->function);
		add_text(t, row->module);
		add_text(t, row->file);
		add_known(t, row->line, row->file);
		add_text(t, row->package && row->package[0] ? row->package : NULL);
		add_figures(t, &row->self);
		if (view->flat)
			add_figures(t, &row->inclusive);
		add_errors(t, &row->self);
		if (view->flat)
			add_errors(t, &row->inclusive);
		code = end_row(t);
	}
	view_rows_done(&rows);
	return code;
}

/* ---- stacks, innermost frame first ---- */

static int run_stacks(struct table *t, struct tm_error *err)
{
	static const char *const names[] = {"frames", NULL};
	struct export_rows rows;
	unsigned all = (1u << VIEW_FIGURE_COUNT) - 1;
	int code = export_rows_choose(&rows, t->input, all, err);
	if (code)
		return code;
	code = begin(t, names, true, false);
	for (size_t i = 0; !code && i < rows.count; i++) {
		uint32_t cursor = rows.list[i]->stack;
		const struct view_frame *frame;
		text_clear(&t->text);
		while ((frame = view_next_frame(t->input->data, &cursor))) {
			if (t->text.length)
				text_put(&t->text, " < ");
			export_frame_name(&t->text, frame);
			if (frame->file)
				text_print(&t->text, " %s:%u", view_module_name(frame->file),
					   frame->line);
		}
		add_text(t, text_string(&t->text));
		add_figures(t, &rows.list[i]->figures);
		add_errors(t, &rows.list[i]->figures);
		code = end_row(t);
	}
	export_rows_done(&rows);
	return code;
}

/* ---- curves ---- */

static int run_timeline(struct table *t, struct tm_error *err)
{
	static const char *const names[] = {"start_ns",
					    "end_ns",
					    "live_bytes",
					    "live_allocations",
					    "min_live_bytes",
					    "max_live_bytes",
					    "allocations",
					    "allocated_bytes",
					    "frees",
					    "freed_bytes",
					    "temporary_allocations",
					    "mapped_bytes",
					    "rss_bytes",
					    NULL};
	const struct query_timeline_options options = {
		.from_ns = t->input->from_ns,
		.to_ns = t->input->to_ns,
		.points = t->input->limit ? (size_t)t->input->limit : POINTS,
		.filter = t->input->filter,
		.progress = t->input->progress,
	};
	struct query_timeline timeline;
	int code = query_timeline(t->input->section, &options, &timeline, err);
	if (code)
		return code;
	code = begin(t, names, false, false);
	for (size_t i = 0; !code && i < timeline.point_count; i++) {
		const struct query_point *p = &timeline.points[i];
		const uint64_t values[] = {p->start_ns,    p->end_ns,          p->live_bytes,
					   p->live_blocks, p->min_live_bytes,  p->max_live_bytes,
					   p->allocations, p->allocated_bytes, p->frees,
					   p->freed_bytes, p->temporary,       p->mapped_bytes,
					   p->rss_bytes};
		for (size_t k = 0; k < sizeof values / sizeof values[0]; k++)
			add_number(t, values[k]);
		code = end_row(t);
	}
	query_timeline_done(&timeline);
	return code;
}

/* ---- single blocks ---- */

static int put_block(void *ctx, const struct query_block *block)
{
	struct table *t = ctx;
	if (t->input->limit && t->block_count++ >= t->input->limit)
		return 0;
	char address[24];
	snprintf(address, sizeof address, "0x%" PRIx64, block->address);
	add_number(t, block->block_id);
	add_text(t, block->address ? address : NULL);
	add_number(t, block->size_bytes);
	add_number(t, block->birth_ns);
	add_known(t, block->end_ns, block->end_ns != UINT64_MAX);
	add_number(t, block->thread_id);
	add_known(t, block->free_thread_id, block->free_thread_id != UINT32_MAX);
	add_number(t, block->stack_id);
	add_text(t, view_site_name(t->input->data, block->stack_id));
	add_number(t, block->is_temporary);
	return end_row(t);
}

/* So many as were asked for come in the order of their allocation, all in that of their end. */
static int run_blocks(struct table *t, struct tm_error *err)
{
	static const char *const names[] = {"block",  "address",   "bytes",       "birth_ns",
					    "end_ns", "thread",    "free_thread", "stack",
					    "site",   "temporary", NULL};
	static const struct {
		enum view_figure bytes;
		enum query_blocks_mode mode;
	} modes[] = {{VIEW_ALLOCATED_BYTES, QUERY_BLOCKS_ALLOCATED},
		     {VIEW_FREED_BYTES, QUERY_BLOCKS_FREED},
		     {VIEW_SURVIVING_BYTES, QUERY_BLOCKS_KEPT},
		     {VIEW_UNFREED_BYTES, QUERY_BLOCKS_LIVE}};
	enum query_blocks_mode mode = QUERY_BLOCKS_ALL;
	for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
		if (t->input->mode->bytes == modes[i].bytes)
			mode = modes[i].mode;
	/* In order they must be held; so many are not. */
	bool ordered = t->input->limit && t->input->limit <= ORDERED_MAX;
	const struct query_blocks_options options = {
		.from_ns = t->input->from_ns,
		.to_ns = t->input->to_ns,
		.mode = mode,
		.filter = t->input->filter,
		.limit = ordered ? t->input->limit : 0,
		.unordered = !ordered,
		.progress = t->input->progress,
	};
	int code = begin(t, names, false, false);
	return code ? code : query_blocks(t->input->section, &options, put_block, t, err);
}

/* ---- threads, modules ---- */

static int run_threads(struct table *t, struct tm_error *err)
{
	static const char *const names[] = {"thread", "tid", "name", "start_ns", "end_ns", NULL};
	const struct view_input *facts = t->input->facts;
	int code = begin(t, names, false, false);
	(void)err;
	for (size_t i = 0; !code && i < facts->thread_count; i++) {
		const struct trace_thread *thread = &facts->threads[i];
		add_number(t, thread->thread_id);
		add_number(t, thread->tid);
		add_text(t, thread->name);
		add_number(t, thread->start_ns);
		add_known(t, thread->end_ns, thread->end_ns != UINT64_MAX);
		code = end_row(t);
	}
	return code;
}

static int run_modules(struct table *t, struct tm_error *err)
{
	static const char *const names[] = {"module", "path", "build_id", "start",
					    "end",    "bias", NULL};
	const struct view_input *facts = t->input->facts;
	int code = begin(t, names, false, false);
	(void)err;
	for (size_t i = 1; !code && i < facts->module_count; i++) {
		const struct trace_module *module = &facts->modules[i];
		size_t bytes = module->build_id_bytes;
		text_clear(&t->text);
		for (size_t k = 0; k < bytes && k < sizeof module->build_id; k++)
			text_print(&t->text, "%02x", module->build_id[k]);
		add_number(t, i);
		add_text(t, module->path);
		add_text(t, t->text.length ? text_string(&t->text) : NULL);
		add_number(t, module->start);
		add_number(t, module->end);
		add_number(t, module->bias);
		code = end_row(t);
	}
	return code;
}

static const struct {
	const char *name;
	int (*run)(struct table *t, struct tm_error *err);
} others[] = {
	{"stacks", run_stacks},   {"timeline", run_timeline},      {"blocks", run_blocks},
	{"threads", run_threads}, {"modules_mapped", run_modules},
};
enum { OTHERS = sizeof others / sizeof others[0] };

const char *table_name(size_t index)
{
	if (index < view_count)
		return view_list[index].name;
	return index < view_count + OTHERS ? others[index - view_count].name : NULL;
}

static int refuse(const char *name, struct tm_error *err)
{
	struct text all = {0};
	for (size_t i = 0; table_name(i); i++)
		text_print(&all, "%s%s", i ? ", " : "", table_name(i));
	int code = tm_fail(err, -EINVAL, "there is no view '%.40s': take one of %s", name,
			   text_string(&all));
	text_done(&all);
	return code;
}

int table_run(const struct export_input *input, const char *name, const struct table_sink *sink,
	      struct tm_error *err)
{
	struct table t = {.input = input, .sink = sink};
	const struct view *view = view_find(name);
	int code = -ENOENT;
	if (view)
		code = run_view(&t, view, err);
	for (size_t i = 0; i < OTHERS; i++)
		if (!strcmp(others[i].name, name))
			code = others[i].run(&t, err);
	text_done(&t.text);
	return code == -ENOENT ? refuse(name, err) : code;
}

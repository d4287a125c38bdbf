/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callgrind's format for KCachegrind, QCachegrind and callgrind_annotate: the
 * figures of each line, and those of each call. A call on a recursive path
 * counts once per stack, so no call has more than all stacks together.
 *
 * Names are always written as "(number) name" and then "(number)", so no name
 * can be taken for something else.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/sort.h"
#include "export/formats.h"
#include "export/rows.h"
#include "export/strings.h"

static const struct {
	const char *name;
	enum view_figure figure;
} events[] = {
	{"PeakBytes", VIEW_PEAK_BYTES},
	{"UnfreedBytes", VIEW_UNFREED_BYTES},
	{"AllocatedBytes", VIEW_ALLOCATED_BYTES},
	{"Allocations", VIEW_ALLOCATIONS},
	{"Temporary", VIEW_TEMPORARY},
};
enum { EVENTS = sizeof events / sizeof events[0], NO_CALLEE = UINT32_MAX };

/* A frame's own figures, or those of its calls to another frame. */
struct edge {
	uint32_t caller, callee; /* numbers of frames; callee NO_CALLEE: its own */
	uint32_t last_row;       /* that was added, plus 1 */
	uint64_t sums[EVENTS];
};

struct callgrind {
	const struct export_input *input;
	struct outlet *outlet;
	struct edge *edges;
	size_t count, room;
	struct idmap map;
	struct strings files, objects;
	bool *has_function; /* by frame's function_id: its name was written */
};

static bool same_edge(const void *ctx, uint32_t id, const void *key)
{
	const struct edge *have = &((const struct callgrind *)ctx)->edges[id], *wanted = key;
	return have->caller == wanted->caller && have->callee == wanted->callee;
}

static int add(struct callgrind *c, uint32_t caller, uint32_t callee, uint32_t row,
	       const struct view_figures *figures)
{
	struct edge key = {.caller = caller, .callee = callee};
	uint64_t hash = hash_pair(caller, callee);
	uint32_t id = idmap_find(&c->map, hash, same_edge, c, &key);
	if (id == IDMAP_NONE) {
		if (c->count == c->room) {
			size_t room = c->room * 2 + 256;
			void *grown = tm_grow_array(c->edges, room, sizeof *c->edges);
			if (!grown)
				return -ENOMEM;
			c->edges = grown;
			c->room = room;
		}
		id = (uint32_t)c->count;
		if (idmap_add(&c->map, hash, id))
			return -ENOMEM;
		c->edges[c->count++] = key;
	}
	struct edge *edge = &c->edges[id];
	if (edge->last_row == row + 1)
		return 0;
	edge->last_row = row + 1;
	for (size_t i = 0; i < EVENTS; i++)
		edge->sums[i] += figures->of[events[i].figure];
	return 0;
}

static int add_stack(struct callgrind *c, uint32_t number, const struct view_stack_row *row)
{
	const struct view_data *data = c->input->data;
	uint32_t cursor = row->stack, callee = NO_CALLEE;
	const struct view_frame *frame;
	int code = 0;
	while (!code && (frame = view_next_frame(data, &cursor))) {
		uint32_t caller = view_frame_number(data, frame);
		code = add(c, caller, callee, number, &row->figures);
		callee = caller;
	}
	return code;
}

/* Functions together, a function's lines together, its own figures first. */
static int by_function(const void *left, const void *right, void *ctx)
{
	const struct edge *a = left, *b = right;
	const struct view_data *data = ctx;
	uint32_t x = view_frame_at(data, a->caller)->function_id;
	uint32_t y = view_frame_at(data, b->caller)->function_id;
	if (x != y)
		return x < y ? -1 : 1;
	if (a->caller != b->caller)
		return a->caller < b->caller ? -1 : 1;
	uint32_t p = a->callee + 1, q = b->callee + 1;
	return (p > q) - (p < q);
}

static int put_name(struct callgrind *c, const char *key, struct strings *strings, const char *name)
{
	size_t before = strings->count;
	uint32_t number;
	int code = strings_number(strings, name, &number);
	if (code)
		return code;
	text_print(&c->outlet->text, "%s=(%u)", key, number + 1);
	if (number == before) {
		text_put_char(&c->outlet->text, ' ');
		export_line_text(&c->outlet->text, name, 0, 0);
	}
	text_put_char(&c->outlet->text, '\n');
	return 0;
}

/* Frames without a name are told apart by their address; named ones by their function. */
static void put_function(struct callgrind *c, const char *key, uint32_t number)
{
	struct text *out = &c->outlet->text;
	struct text name = {0};
	const struct view_frame *frame = view_frame_at(c->input->data, number);
	size_t frames = view_frame_count(c->input->data);
	size_t id = frame->function ? frames + frame->function_id : number;
	text_print(out, "%s=(%zu)", key, id + 1);
	if (!c->has_function[id]) {
		c->has_function[id] = true;
		export_frame_name(&name, frame);
		text_put_char(out, ' ');
		export_line_text(out, text_string(&name), 0, 0);
		text_done(&name);
	}
	text_put_char(out, '\n');
}

static int put_where(struct callgrind *c, const char *prefix, uint32_t number)
{
	const struct view_frame *frame = view_frame_at(c->input->data, number);
	bool called = prefix[0];
	int code = put_name(c, called ? "cob" : "ob", &c->objects, frame->module);
	if (!code)
		code = put_name(c, called ? "cfi" : "fl", &c->files,
				frame->file ? frame->file : "???");
	put_function(c, called ? "cfn" : "fn", number);
	return code;
}

static int put_edge(struct callgrind *c, const struct edge *edge)
{
	struct text *out = &c->outlet->text;
	int code = 0;
	if (edge->callee != NO_CALLEE) {
		code = put_where(c, "c", edge->callee);
		text_print(out, "calls=%" PRIu64 " %u\n", edge->sums[3] ? edge->sums[3] : 1,
			   view_frame_at(c->input->data, edge->callee)->line);
	}
	text_print(out, "%u", view_frame_at(c->input->data, edge->caller)->line);
	for (size_t i = 0; i < EVENTS; i++)
		text_print(out, " %" PRIu64, edge->sums[i]);
	text_put_char(out, '\n');
	return code ? code : outlet_flush(c->outlet);
}

static int put_edges(struct callgrind *c)
{
	int code = 0;
	for (size_t i = 0; !code && i < c->count; i++) {
		if (!i || c->edges[i].caller != c->edges[i - 1].caller) {
			text_put_char(&c->outlet->text, '\n');
			code = put_where(c, "", c->edges[i].caller);
		}
		if (!code)
			code = put_edge(c, &c->edges[i]);
	}
	return code;
}

static void put_head(struct callgrind *c, const struct export_rows *rows)
{
	struct text *out = &c->outlet->text;
	text_put(out, "# callgrind format\nversion: 1\ncreator: tidemark\n");
	if (export_note(c->input))
		text_print(out, "desc: Note: %s\n", export_note(c->input));
	text_print(out, "pid: %u\ncmd: ", c->input->facts->meta->pid);
	export_line_text(out, export_command(c->input), 0, 0);
	text_put(out, "\npart: 1\n\npositions: line\nevents:");
	for (size_t i = 0; i < EVENTS; i++)
		text_print(out, " %s", events[i].name);
	text_put(out, "\nsummary:");
	for (size_t i = 0; i < EVENTS; i++)
		text_print(out, " %" PRIu64, rows->sum.of[events[i].figure]);
	text_put_char(out, '\n');
}

static size_t name_count(const struct view_data *data)
{
	size_t frames = view_frame_count(data), functions = 0;
	for (uint32_t i = 0; i < frames; i++)
		if (view_frame_at(data, i)->function_id >= functions)
			functions = view_frame_at(data, i)->function_id + 1u;
	return frames + functions;
}

static int write_callgrind(const struct export_input *input, struct outlet *outlet,
			   struct tm_error *err)
{
	struct callgrind c = {.input = input, .outlet = outlet};
	struct export_rows rows;
	unsigned figures = 0;
	for (size_t i = 0; i < EVENTS; i++)
		figures |= 1u << events[i].figure;
	int code = export_rows_choose(&rows, input, figures, err);
	if (code)
		return code;
	c.has_function = tm_alloc_array(name_count(input->data) + 1, sizeof *c.has_function);
	code = c.has_function ? 0 : -ENOMEM;
	for (uint32_t i = 0; !code && i < rows.count; i++)
		code = add_stack(&c, i, rows.list[i]);
	if (!code) {
		sort_array(c.edges, c.count, sizeof *c.edges, by_function, (void *)input->data);
		put_head(&c, &rows);
		code = put_edges(&c);
	}
	export_rows_done(&rows);
	tm_free(c.edges);
	tm_free(c.has_function);
	idmap_done(&c.map);
	strings_done(&c.files);
	strings_done(&c.objects);
	return code;
}

const struct export_format export_callgrind = {
	.name = "callgrind",
	.help = "callgrind's file, for KCachegrind and callgrind_annotate",
	.suffix = ".callgrind",
	.type = "text/plain; charset=utf-8",
	.write = write_callgrind,
};

/* SPDX-License-Identifier: Apache-2.0 */
#include "views/missing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/idmap.h"
#include "base/memory.h"
#include "model/lacks.h"

struct counting {
	const struct view_data *data;
	struct view_missing *missing;
	struct cure_signs *signs; /* by row */
	size_t room;
	struct idmap by_text; /* of a module's path: the same path may be there several times */
	uint32_t *row_of;     /* by number of the frame, plus 1; 0 = not met yet */
	bool *met;            /* by node: a stack leads through it */
	uint32_t *set_of;     /* by node: what is lacking from there outwards */
	struct lacks lacks;
};

static bool same_module(const void *ctx, uint32_t id, const void *key)
{
	return !strcmp(((const struct counting *)ctx)->missing->rows[id].module, key);
}

static int add_row(struct counting *counting, const char *module, uint32_t *ret_id)
{
	struct view_missing *missing = counting->missing;
	if (missing->count == counting->room) {
		size_t room = counting->room * 2 + 32;
		void *rows = tm_grow_array(missing->rows, room, sizeof *missing->rows);
		if (!rows)
			return -ENOMEM;
		missing->rows = rows;
		void *signs = tm_grow_array(counting->signs, room, sizeof *counting->signs);
		if (!signs)
			return -ENOMEM;
		counting->signs = signs;
		counting->room = room;
	}
	uint32_t id = (uint32_t)missing->count;
	if (idmap_add(&counting->by_text, hash_bytes(module, strlen(module)), id))
		return -ENOMEM;
	missing->rows[id] = (struct view_missing_row){.module = module};
	counting->signs[id] = (struct cure_signs){0};
	missing->count++;
	*ret_id = id;
	return 0;
}

static int find_row(struct counting *counting, const char *module, uint32_t *ret_id)
{
	uint64_t hash = hash_bytes(module, strlen(module));
	*ret_id = idmap_find(&counting->by_text, hash, same_module, counting, module);
	return *ret_id == IDMAP_NONE ? add_row(counting, module, ret_id) : 0;
}

static unsigned what_lacks(const struct view_frame *frame)
{
	bool unnamed = !frame->function || frame->source == TRACE_SYM_NONE;
	return (unnamed ? LACKS_NAME : 0) | (frame->file ? 0 : LACKS_LINE);
}

/* The row of a frame's module; each frame is counted there once. */
static int meet_frame(struct counting *counting, const struct view_frame *frame, uint32_t *ret_id)
{
	uint32_t *known = &counting->row_of[view_frame_number(counting->data, frame)];
	if (*known) {
		*ret_id = *known - 1;
		return 0;
	}
	int code = find_row(counting, frame->module, ret_id);
	if (code)
		return code;
	*known = *ret_id + 1;
	struct view_missing_row *row = &counting->missing->rows[*ret_id];
	struct cure_signs *signs = &counting->signs[*ret_id];
	unsigned lacks = what_lacks(frame);
	row->unnamed += (lacks & LACKS_NAME) != 0;
	row->unlined += (lacks & LACKS_LINE) != 0;
	signs->rust |= cure_is_rust(frame->function, frame->file);
	signs->mapped |= frame->source == TRACE_SYM_JIT;
	return 0;
}

static bool is_skipped(const struct view_frame *frame)
{
	return frame->is_allocator || !strcmp(frame->module, "[mark]");
}

/* A frame outside of which nothing counts. */
static bool is_end(const struct view_frame *frame)
{
	return frame->is_root && !is_skipped(frame);
}

/* Nodes that stacks lead through, from their leaves to where they end. */
static void meet_nodes(struct counting *counting)
{
	size_t count;
	const struct view_stack_row *stacks = view_stacks(counting->data, &count);
	for (size_t i = 0; i < count; i++)
		counting->met[stacks[i].stack] = true;
	for (size_t node = view_node_count(counting->data); node-- > 1;) {
		uint32_t caller = (uint32_t)node;
		if (!counting->met[node])
			continue;
		if (!is_end(view_next_frame(counting->data, &caller)))
			counting->met[caller] = true;
	}
}

/* What is lacking from each node outwards: callers have smaller numbers. */
static int count_nodes(struct counting *counting)
{
	size_t count = view_node_count(counting->data);
	for (uint32_t node = 1; node < count; node++) {
		uint32_t caller = node, id = 0;
		if (!counting->met[node])
			continue;
		const struct view_frame *frame = view_next_frame(counting->data, &caller);
		uint32_t set = is_end(frame) ? 0 : counting->set_of[caller];
		counting->set_of[node] = set;
		/* Of what ends a stack main alone is the program's. */
		if (is_skipped(frame) || (frame->is_root && strcmp(frame->function, "main") != 0))
			continue;
		int code = meet_frame(counting, frame, &id);
		if (!code)
			code = lacks_add(&counting->lacks, set, id, what_lacks(frame),
					 &counting->set_of[node]);
		if (code)
			return code;
	}
	return 0;
}

static int add_up(struct counting *counting)
{
	struct view_missing *missing = counting->missing;
	struct lacks_module any, *modules = tm_alloc_array(missing->count + 1, sizeof *modules);
	size_t count;
	const struct view_stack_row *stacks = view_stacks(counting->data, &count);
	if (!modules)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		lacks_count(&counting->lacks, counting->set_of[stacks[i].stack],
			    stacks[i].figures.of[VIEW_ALLOCATED_BYTES]);
	lacks_sum(&counting->lacks, modules, &any, &missing->bytes);
	missing->unnamed_bytes = any.bytes[0];
	missing->unlined_bytes = any.bytes[1];
	for (size_t i = 0; i < missing->count; i++) {
		missing->rows[i].unnamed_bytes = modules[i].bytes[0];
		missing->rows[i].unlined_bytes = modules[i].bytes[1];
	}
	tm_free(modules);
	return 0;
}

static int count_all(struct counting *counting)
{
	size_t nodes = view_node_count(counting->data);
	counting->row_of =
		tm_alloc_array(view_frame_count(counting->data) + 1, sizeof *counting->row_of);
	counting->met = tm_alloc_array(nodes + 1, sizeof *counting->met);
	counting->set_of = tm_alloc_array(nodes + 1, sizeof *counting->set_of);
	if (!counting->row_of || !counting->met || !counting->set_of ||
	    lacks_init(&counting->lacks))
		return -ENOMEM;
	meet_nodes(counting);
	int code = count_nodes(counting);
	return code ? code : add_up(counting);
}

static void finish_rows(struct counting *counting, const struct view_input *input)
{
	struct view_missing *missing = counting->missing;
	size_t kept = 0;
	for (size_t i = 0; i < missing->count; i++) {
		struct view_missing_row row = missing->rows[i];
		if (!counting->signs || (!row.unnamed && !row.unlined))
			continue;
		row.cure = cure_of(row.module, counting->signs[i], input->modules,
				   input->module_count);
		for (size_t k = 1; k < input->module_count; k++)
			if (input->modules[k].path && !strcmp(input->modules[k].path, row.module)) {
				row.build_id = input->modules[k].build_id;
				row.build_id_bytes = input->modules[k].build_id_bytes;
			}
		missing->rows[kept++] = row;
	}
	missing->count = kept;
}

static int by_weight(const void *a, const void *b)
{
	const struct view_missing_row *x = a, *y = b;
	if (x->unnamed_bytes != y->unnamed_bytes)
		return x->unnamed_bytes > y->unnamed_bytes ? -1 : 1;
	if (x->unlined_bytes != y->unlined_bytes)
		return x->unlined_bytes > y->unlined_bytes ? -1 : 1;
	return strcmp(x->module, y->module);
}

int view_missing(const struct view_data *data, const struct view_input *input,
		 struct view_missing *ret_missing, struct tm_error *err)
{
	*ret_missing = (struct view_missing){0};
	struct counting counting = {.data = data, .missing = ret_missing};
	int code = count_all(&counting);
	if (!code) {
		finish_rows(&counting, input);
		if (ret_missing->count)
			qsort(ret_missing->rows, ret_missing->count, sizeof *ret_missing->rows,
			      by_weight);
	}
	idmap_done(&counting.by_text);
	lacks_done(&counting.lacks);
	tm_free(counting.row_of);
	tm_free(counting.met);
	tm_free(counting.set_of);
	tm_free(counting.signs);
	if (!code)
		return 0;
	view_missing_done(ret_missing);
	return tm_fail(err, code, "out of memory");
}

void view_missing_done(struct view_missing *missing)
{
	tm_free(missing->rows);
	*missing = (struct view_missing){0};
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Folding: stacks without the frames that nobody wants to read. */
#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "views/data.h"

struct folding {
	const struct names *old;
	struct names *names;
	unsigned kinds;
	uint32_t *new_of;   /* from the old nodes to the new ones */
	uint32_t *standing; /* by function: one frame of its module, the same for all; or NULL */
};

/* Whether a function is on the way from a new node to the root: short, since none is twice. */
static bool is_above(const struct names *names, uint32_t node, uint32_t function)
{
	for (; node; node = names->nodes[node].parent)
		if (names->frames[names->nodes[node].frame].function_id == function)
			return true;
	return false;
}

static bool is_folded(const struct folding *f, uint32_t parent, uint32_t frame)
{
	const struct view_frame *one = &f->old->frames[frame];
	if (one->label)
		return false;
	if (f->kinds >> one->kind & 1)
		return true;
	if (f->standing)
		return parent && f->names->nodes[parent].frame == f->standing[one->function_id];
	return f->kinds & VIEW_FOLD_RECURSION && one->function &&
	       is_above(f->names, parent, one->function_id);
}

static bool same_module(const void *ctx, uint32_t frame, const void *module)
{
	const struct names *names = ctx;
	return !strcmp(names->functions[names->frames[frame].function_id].module, module);
}

/* A frame for each module: the first that was met. */
static int choose_standing(struct folding *f)
{
	const struct names *old = f->old;
	bool *is_done = tm_alloc_array(old->function_count + 1, sizeof *is_done);
	f->standing = tm_alloc_array(old->function_count + 1, sizeof *f->standing);
	if (!is_done || !f->standing) {
		tm_free(is_done);
		return -ENOMEM;
	}
	struct idmap modules = {0};
	int code = 0;
	for (uint32_t i = 0; !code && i < old->frame_count; i++) {
		uint32_t function = old->frames[i].function_id;
		const char *module = old->functions[function].module;
		uint64_t hash = hash_bytes(module, strlen(module));
		if (is_done[function])
			continue;
		uint32_t found = idmap_find(&modules, hash, same_module, old, module);
		if (found == IDMAP_NONE)
			code = idmap_add(&modules, hash, found = i);
		is_done[function] = true;
		f->standing[function] = found;
	}
	idmap_done(&modules);
	tm_free(is_done);
	return code;
}

static int fold_node(struct folding *f, uint32_t parent, uint32_t frame, uint32_t *ret_node)
{
	const struct view_frame *one = &f->old->frames[frame];
	uint32_t shown = f->standing && !one->label ? f->standing[one->function_id] : frame;
	return names_intern_node(f->names, parent, shown, ret_node);
}

/* The trie again without folded frames. */
static int fold_nodes(struct folding *f)
{
	const struct names *old = f->old;
	struct names *names = f->names;
	uint32_t *new_of = f->new_of;
	names->nodes = tm_alloc_array(1, sizeof *names->nodes);
	if (!names->nodes)
		return -ENOMEM;
	names->node_count = names->node_room = 1;
	for (size_t i = 1; i < old->node_count; i++) {
		const struct names_node *node = &old->nodes[i];
		int code = 0;
		new_of[i] = new_of[node->parent];
		if (!is_folded(f, new_of[i], node->frame))
			code = fold_node(f, new_of[i], node->frame, &new_of[i]);
		if (code)
			return code;
	}
	/* A stack of folded frames alone keeps its innermost. */
	for (size_t i = 1; i < old->node_count; i++) {
		int code = new_of[i] ? 0 : fold_node(f, 0, old->nodes[i].frame, &new_of[i]);
		if (code)
			return code;
	}
	return 0;
}

static int fold_rows(struct view_data *data, const uint32_t *new_of)
{
	struct rows_builder builder;
	int code = data_rows_begin(&builder, data);
	for (size_t i = 0; !code && i < data->row_count; i++) {
		const struct view_stack_row *row = &data->rows[i];
		uint32_t node = new_of[row->stack];
		code = data_rows_add(&builder, node, &row->figures);
		if (code)
			break;
		struct view_stack_row *folded = &builder.rows[builder.row_of[node] - 1];
		folded->suppressed_blocks += row->suppressed_blocks;
		folded->suppressed_bytes += row->suppressed_bytes;
	}
	data_rows_finish(&builder, !code);
	return code;
}

/* From stack_id to the folded nodes: in its place if it is its own, else into one of its own. */
static void fold_stacks(struct view_data *data, const uint32_t *new_of, uint32_t *node_of)
{
	for (size_t i = 0; i < data->input.stack_count; i++)
		node_of[i] = new_of[data->names.node_of[i]];
	data->names.node_of = node_of;
	data->borrows_nodes = false;
}

int view_data_fold(struct view_data *data, unsigned kinds, struct tm_error *err)
{
	struct names old = data->names;
	bool borrowed = data->borrows_nodes;
	uint32_t *new_of = tm_alloc_array(old.node_count, sizeof *new_of);
	uint32_t *node_of = borrowed ? tm_alloc_array(data->input.stack_count + 1, sizeof *node_of)
				     : old.node_of;
	struct folding f = {.old = &old, .names = &data->names, .kinds = kinds, .new_of = new_of};
	data->names.nodes = NULL;
	data->names.node_map = (struct idmap){0};
	data->names.node_count = data->names.node_room = 0;
	int code = new_of && node_of ? 0 : -ENOMEM;
	if (!code && kinds & VIEW_FOLD_MODULES)
		code = choose_standing(&f);
	if (!code)
		code = fold_nodes(&f);
	tm_free(f.standing);
	if (!code)
		code = fold_rows(data, new_of);
	struct names *gone = code ? &data->names : &old;
	if (code || !borrowed) {
		tm_free(gone->nodes);
		idmap_done(&gone->node_map);
	}
	if (code) {
		data->names = old;
		tm_free(borrowed ? node_of : NULL);
		tm_free(new_of);
		return tm_fail(err, code, "out of memory");
	}
	fold_stacks(data, new_of, node_of);
	tm_free(new_of);
	return 0;
}

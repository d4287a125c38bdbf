/* SPDX-License-Identifier: Apache-2.0 */
/* Folding: stacks without the frames that nobody wants to read. */
#include <errno.h>

#include "base/memory.h"
#include "views/data.h"

static bool is_folded(const struct view_frame *frame, unsigned kinds)
{
	return !frame->label && (kinds >> frame->kind & 1);
}

/* The trie again without folded frames; new_of[] leads from the old nodes to the new ones. */
static int fold_nodes(const struct names *old, struct names *names, unsigned kinds,
		      uint32_t *new_of)
{
	names->nodes = tm_alloc_array(1, sizeof *names->nodes);
	if (!names->nodes)
		return -ENOMEM;
	names->node_count = names->node_room = 1;
	for (size_t i = 1; i < old->node_count; i++) {
		const struct names_node *node = &old->nodes[i];
		int code = 0;
		new_of[i] = new_of[node->parent];
		if (!is_folded(&old->frames[node->frame], kinds))
			code = names_intern_node(names, new_of[i], node->frame, &new_of[i]);
		if (code)
			return code;
	}
	/* A stack of folded frames alone keeps its innermost. */
	for (size_t i = 1; i < old->node_count; i++) {
		int code = new_of[i] ? 0
				     : names_intern_node(names, 0, old->nodes[i].frame, &new_of[i]);
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

int view_data_fold(struct view_data *data, unsigned kinds, struct tm_error *err)
{
	struct names old = data->names;
	uint32_t *new_of = tm_alloc_array(old.node_count, sizeof *new_of);
	data->names.nodes = NULL;
	data->names.node_map = (struct idmap){0};
	data->names.node_count = data->names.node_room = 0;
	int code = new_of ? fold_nodes(&old, &data->names, kinds, new_of) : -ENOMEM;
	if (!code)
		code = fold_rows(data, new_of);
	struct names *gone = code ? &data->names : &old;
	tm_free(gone->nodes);
	idmap_done(&gone->node_map);
	if (code) {
		data->names = old;
		tm_free(new_of);
		return tm_fail(err, code, "out of memory");
	}
	for (size_t i = 0; i < data->input.stack_count; i++)
		data->names.node_of[i] = new_of[data->names.node_of[i]];
	tm_free(new_of);
	return 0;
}

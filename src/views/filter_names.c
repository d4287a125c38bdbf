/* SPDX-License-Identifier: Apache-2.0 */
/* Names of frames for filters. */
#include "trace/labels.h"
#include "views/data.h"

/* The frames of the stack's last address lie between its node and its parent's. */
static bool name_frame(void *ctx, uint32_t stack_id, size_t index, struct filter_frame *ret)
{
	const struct view_data *data = ctx;
	const struct names *names = &data->names;
	if (stack_id >= data->input.stack_count)
		return false;
	uint32_t node = names->node_of[stack_id];
	uint32_t parent = names->node_of[data->input.stacks[stack_id].parent_id];
	for (; index > 0 && node != parent && node; index--)
		node = names->nodes[node].parent;
	if (!node || node == parent)
		return false;
	const struct view_frame *frame = &names->frames[names->nodes[node].frame];
	*ret = (struct filter_frame){
		.function = frame->function,
		.file = frame->file,
		.module = frame->module,
		.package = frame->package,
		.is_allocator = frame->is_allocator,
	};
	if (frame->label)
		trace_label_of(frame->module,
			       frame->label == TRACE_LABEL_HEAP ? &ret->heap : &ret->tag);
	return true;
}

struct filter_names view_filter_names(const struct view_data *data)
{
	return (struct filter_names){.ctx = (void *)data, .frame = name_frame};
}

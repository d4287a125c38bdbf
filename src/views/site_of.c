/* SPDX-License-Identifier: Apache-2.0 */
/* From a recorded stack to what the views know of it. */
#include "views/data.h"

static const struct names_node *find_node(const struct view_data *data, uint32_t stack_id)
{
	uint32_t node = stack_id < data->input.stack_count ? data->names.node_of[stack_id] : 0;
	return node ? &data->names.nodes[node] : NULL;
}

uint32_t view_site_of(const struct view_data *data, uint32_t stack_id)
{
	const struct names_node *node = find_node(data, stack_id);
	return node ? node->site : UINT32_MAX;
}

const char *view_site_name(const struct view_data *data, uint32_t stack_id)
{
	const struct names_node *node = find_node(data, stack_id);
	return node ? data->names.functions[node->site].function : NULL;
}

uint32_t view_node_of(const struct view_data *data, uint32_t stack_id)
{
	return stack_id < data->input.stack_count ? data->names.node_of[stack_id] : 0;
}

size_t view_frame_count(const struct view_data *data)
{
	return data->names.frame_count;
}

const struct view_frame *view_frame_at(const struct view_data *data, uint32_t number)
{
	return &data->names.frames[number];
}

uint32_t view_frame_number(const struct view_data *data, const struct view_frame *frame)
{
	return (uint32_t)(frame - data->names.frames);
}

size_t view_node_count(const struct view_data *data)
{
	return data->names.node_count;
}

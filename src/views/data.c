/* SPDX-License-Identifier: Apache-2.0 */
/* A section made ready for views: stacks with names, and the figures of each. */
#include "views/data.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"

int view_input_read(struct trace_reader *reader, struct view_input *ret_input, struct tm_error *err)
{
	struct view_input input = {.complete = trace_reader_complete(reader)};
	int code = trace_reader_meta(reader, &input.meta, err);
	if (!code)
		code = trace_reader_end(reader, &input.end, err);
	if (!code)
		code = trace_reader_stacks(reader, &input.stacks, &input.stack_count, err);
	if (!code)
		code = trace_reader_modules(reader, &input.modules, &input.module_count, err);
	if (!code)
		code = trace_reader_symbols(reader, &input.symbols, &input.symbol_count, err);
	if (!code)
		code = trace_reader_threads(reader, &input.threads, &input.thread_count, err);
	input.sample_bytes = code ? 0 : trace_reader_sample_bytes(reader);
	if (!code)
		*ret_input = input;
	return code;
}

double view_error_bytes(const struct view_input *input, uint64_t bytes, uint64_t blocks)
{
	if (!input->sample_bytes || !bytes)
		return 0;
	return trace_standard_error((double)bytes, (double)blocks, (double)input->sample_bytes);
}

double view_error_percent(const struct view_input *input, uint64_t bytes, uint64_t blocks)
{
	return bytes ? view_error_bytes(input, bytes, blocks) / (double)bytes * 100 : 0;
}

int data_rows_begin(struct rows_builder *builder, struct view_data *data)
{
	*builder = (struct rows_builder){.data = data};
	builder->row_of = tm_alloc_array(data->names.node_count, sizeof *builder->row_of);
	return builder->row_of ? 0 : -ENOMEM;
}

static struct view_stack_row *row_for(struct rows_builder *builder, uint32_t node)
{
	const struct names *names = &builder->data->names;
	if (builder->row_of[node])
		return &builder->rows[builder->row_of[node] - 1];
	if (builder->count == builder->room) {
		size_t room = builder->room * 2 + 256;
		void *grown = tm_grow_array(builder->rows, room, sizeof *builder->rows);
		if (!grown)
			return NULL;
		builder->rows = grown;
		builder->room = room;
	}
	struct view_stack_row *row = &builder->rows[builder->count++];
	builder->row_of[node] = (uint32_t)builder->count;
	/* The empty stack has a site of its own, after all functions. */
	uint32_t site = node ? names->nodes[node].site : (uint32_t)names->function_count;
	*row = (struct view_stack_row){.stack = node, .site = site};
	return row;
}

int data_rows_add(struct rows_builder *builder, uint32_t node, const struct view_figures *figures)
{
	struct view_stack_row *row = row_for(builder, node);
	if (!row)
		return -ENOMEM;
	view_figures_add(&row->figures, figures);
	return 0;
}

void data_rows_finish(struct rows_builder *builder, bool ok)
{
	tm_free(builder->row_of);
	if (!ok) {
		tm_free(builder->rows);
		return;
	}
	tm_free(builder->data->rows);
	builder->data->rows = builder->rows;
	builder->data->row_count = builder->count;
}

static int add_stack(void *ctx, const struct model_stack *stack)
{
	struct rows_builder *builder = ctx;
	uint32_t node = view_stack_of(builder->data, stack->stack_id);
	const struct view_figures figures = {{
		[VIEW_ALLOCATIONS] = stack->allocations,
		[VIEW_ALLOCATED_BYTES] = stack->allocated_bytes,
		[VIEW_FREES] = stack->frees,
		[VIEW_FREED_BYTES] = stack->freed_bytes,
		[VIEW_TEMPORARY] = stack->temporary,
		[VIEW_FAILED] = stack->failed,
		[VIEW_PEAK_BLOCKS] = stack->peak_blocks,
		[VIEW_PEAK_BYTES] = stack->peak_bytes,
		[VIEW_UNFREED_BLOCKS] = stack->live_blocks,
		[VIEW_UNFREED_BYTES] = stack->live_bytes,
		[VIEW_SURVIVING_BLOCKS] = stack->live_blocks,
		[VIEW_SURVIVING_BYTES] = stack->live_bytes,
	}};
	return data_rows_add(builder, node, &figures);
}

int view_data_new(const struct view_input *input, struct view_data **ret_data, struct tm_error *err)
{
	struct view_data *data = tm_alloc(sizeof *data);
	if (!data)
		return tm_fail(err, -ENOMEM, "out of memory");
	data->input = *input;
	int code = names_init(&data->names, input, err);
	if (code) {
		tm_free(data);
		return code;
	}
	struct rows_builder builder;
	code = data_rows_begin(&builder, data);
	if (!code)
		code = model_stacks(input->model, add_stack, &builder);
	data_rows_finish(&builder, !code);
	if (code) {
		view_data_free(data);
		return tm_fail(err, code, "out of memory");
	}
	*ret_data = data;
	return 0;
}

struct view_data *view_data_free(struct view_data *data)
{
	if (!data)
		return NULL;
	if (data->borrows_nodes)
		data->names = (struct names){0};
	else if (data->borrows_names)
		names_done_nodes(&data->names);
	names_done(&data->names);
	tm_free(data->rows);
	return tm_free(data);
}

const struct view_frame *view_next_frame(const struct view_data *data, uint32_t *cursor)
{
	if (!*cursor || *cursor >= data->names.node_count)
		return NULL;
	const struct names_node *node = &data->names.nodes[*cursor];
	*cursor = node->parent;
	return &data->names.frames[node->frame];
}

uint32_t view_stack_of(const struct view_data *data, uint32_t stack_id)
{
	return stack_id < data->input.stack_count ? data->names.node_of[stack_id] : 0;
}

const char *view_module_name(const char *module)
{
	const char *slash = *module == '[' ? NULL : strrchr(module, '/');
	return slash ? slash + 1 : module;
}

const struct view_stack_row *view_stacks(const struct view_data *data, size_t *ret_count)
{
	*ret_count = data->row_count;
	return data->rows;
}

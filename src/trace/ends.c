/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/ends.h"

#include "base/hash.h"
#include "base/memory.h"
#include "trace/container.h"
#include "trace/decode.h"

enum { ENDS_BLOCK, ENDS_STACK, ENDS_SIZE, ENDS_TEMPORARY, ENDS_COLUMNS };
enum { FIRST_ROOM = 1024 };

/* Stacks that occurred in this block, by number. */
struct local {
	uint32_t stack_id;
	uint64_t size_bytes; /* of its last row */
};

struct locals {
	struct local *list;
	uint32_t count;
	uint32_t *index; /* hash of the stack_id -> number + 1 */
	size_t index_mask;
};

void ends_done(struct ends *ends)
{
	tm_free(ends->rows);
	*ends = (struct ends){0};
}

void ends_grow(struct ends *ends)
{
	size_t room = ends->room ? ends->room * 2 : FIRST_ROOM;
	void *rows = tm_grow_array(ends->rows, room, sizeof *ends->rows);
	ends->failed |= !rows;
	if (!rows)
		return;
	ends->rows = rows;
	ends->room = room;
}

static bool locals_init(struct locals *locals, size_t rows, bool index)
{
	size_t room = 16;
	while (index && room < 2 * rows)
		room *= 2;
	*locals = (struct locals){.index_mask = room - 1};
	locals->list = tm_alloc_array(rows + 1, sizeof *locals->list);
	if (index)
		locals->index = tm_alloc_array(room, sizeof *locals->index);
	return locals->list && (!index || locals->index);
}

static void locals_done(struct locals *locals)
{
	tm_free(locals->list);
	tm_free(locals->index);
}

/* The number of a stack, a new one if needed: then it is the count before. */
static uint32_t locals_number(struct locals *locals, uint32_t stack_id)
{
	size_t at = hash_u64(stack_id) & locals->index_mask;
	while (locals->index[at]) {
		uint32_t number = locals->index[at] - 1;
		if (locals->list[number].stack_id == stack_id)
			return number;
		at = (at + 1) & locals->index_mask;
	}
	locals->list[locals->count] = (struct local){.stack_id = stack_id};
	locals->index[at] = locals->count + 1;
	return locals->count++;
}

static void put_stack(struct bytes *column, struct locals *locals, uint32_t stack_id,
		      uint32_t *ret_number)
{
	uint32_t known = locals->count;
	uint32_t number = locals_number(locals, stack_id);
	bytes_put_varint(column, number);
	if (number == known) {
		uint32_t last = number > 0 ? locals->list[number - 1].stack_id : 0;
		bytes_put_signed(column, (int64_t)stack_id - (int64_t)last);
	}
	*ret_number = number;
}

static void put_rows(struct bytes *columns, struct locals *locals, const struct ends *ends,
		     uint64_t last_block)
{
	uint64_t last_temporary = 0;
	for (size_t i = 0; i < ends->count; i++) {
		const struct trace_old_end *row = &ends->rows[i];
		uint32_t number;
		bytes_put_signed(&columns[ENDS_BLOCK], (int64_t)(row->block_id - last_block));
		last_block = row->block_id;
		put_stack(&columns[ENDS_STACK], locals, row->stack_id, &number);
		struct local *local = &locals->list[number];
		/* A size of 2^64 - 1 cannot be told from "the same": no such block exists. */
		bytes_put_varint(&columns[ENDS_SIZE],
				 row->size_bytes == local->size_bytes ? 0 : row->size_bytes + 1);
		local->size_bytes = row->size_bytes;
		if (row->is_temporary) {
			bytes_put_varint(&columns[ENDS_TEMPORARY], i + 1 - last_temporary);
			last_temporary = i + 1;
		}
	}
}

static void summarise(const struct ends *ends, struct format_block_header *header)
{
	uint64_t lowest = UINT64_MAX, highest = 0;
	for (size_t i = 0; i < ends->count; i++) {
		uint64_t block_id = ends->rows[i].block_id;
		lowest = block_id < lowest ? block_id : lowest;
		highest = block_id > highest ? block_id : highest;
	}
	header->count = (uint32_t)ends->count;
	header->first_block_id = ends->count ? lowest : 0;
	header->min_size_bytes = highest;
	header->max_size_bytes = ends->undone;
}

void ends_put(struct bytes *out, const struct ends *ends, uint32_t stack_count,
	      struct format_block_header *header)
{
	struct bytes columns[ENDS_COLUMNS] = {0};
	struct span spans[ENDS_COLUMNS];
	struct locals locals;
	bool good = locals_init(&locals, ends->count, true);
	for (size_t i = 0; i < ends->count && good; i++)
		good = ends->rows[i].stack_id < stack_count;
	summarise(ends, header);
	if (good)
		put_rows(columns, &locals, ends, header->first_block_id);
	out->failed |= !good;
	for (int i = 0; i < ENDS_COLUMNS; i++) {
		spans[i] = span_of(columns[i].data, columns[i].used);
		out->failed |= columns[i].failed;
	}
	container_put(out, spans, ENDS_COLUMNS);
	for (int i = 0; i < ENDS_COLUMNS; i++)
		bytes_done(&columns[i]);
	locals_done(&locals);
}

static const char *get_stack(struct span *column, struct locals *locals, uint32_t stack_count,
			     struct local **ret)
{
	uint32_t number = span_u32(column);
	if (number > locals->count)
		return "a stack is not in the file";
	if (number == locals->count) {
		int64_t stack_id = number > 0 ? (int64_t)locals->list[number - 1].stack_id : 0;
		if (__builtin_add_overflow(stack_id, span_signed(column), &stack_id) ||
		    stack_id < 0 || stack_id >= stack_count)
			return "a stack is not in the file";
		locals->list[locals->count++] = (struct local){.stack_id = (uint32_t)stack_id};
	}
	*ret = &locals->list[number];
	return NULL;
}

static const char *get_rows(struct span *columns, const struct format_block_header *header,
			    uint32_t stack_count, struct locals *locals, struct trace_old_end *rows)
{
	uint64_t block_id = header->first_block_id;
	for (uint32_t i = 0; i < header->count; i++) {
		struct local *local = NULL;
		const char *wrong = get_stack(&columns[ENDS_STACK], locals, stack_count, &local);
		if (wrong)
			return wrong;
		uint64_t size = span_varint(&columns[ENDS_SIZE]);
		if (size > 0)
			local->size_bytes = size - 1;
		block_id += (uint64_t)span_signed(&columns[ENDS_BLOCK]);
		rows[i] = (struct trace_old_end){.block_id = block_id,
						 .size_bytes = local->size_bytes,
						 .stack_id = local->stack_id};
	}
	return NULL;
}

static const char *get_temporary(struct span *column, uint32_t count, struct trace_old_end *rows)
{
	uint64_t at = 0;
	while (span_left(column) > 0) {
		uint64_t step = span_varint(column);
		if (step == 0 || step > count - at)
			return "a row is out of range";
		at += step;
		rows[at - 1].is_temporary = true;
	}
	return NULL;
}

const char *ends_get(struct span payload, const struct format_block_header *header,
		     uint32_t stack_count, struct trace_old_end *rows)
{
	struct span columns[ENDS_COLUMNS];
	struct locals locals;
	if (!container_get(payload, columns, ENDS_COLUMNS))
		return "its columns do not fit";
	if (header->count > span_left(&columns[ENDS_BLOCK]))
		return "it has more rows than it can have";
	if (!locals_init(&locals, header->count, false)) {
		locals_done(&locals);
		return decode_no_memory;
	}
	const char *wrong = get_rows(columns, header, stack_count, &locals, rows);
	if (!wrong)
		wrong = get_temporary(&columns[ENDS_TEMPORARY], header->count, rows);
	for (int i = 0; i < ENDS_COLUMNS && !wrong; i++)
		wrong = columns[i].bad ? "a column is too short" : NULL;
	locals_done(&locals);
	return wrong;
}

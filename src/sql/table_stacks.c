/* SPDX-License-Identifier: Apache-2.0 */
/* stacks: every call path, with the figures of what it allocated. */
#include <string.h>

#include "sql/site.h"
#include "sql/tables.h"
#include "sql/vtab.h"
#include "trace/labels.h"

enum {
	STACK_ID,
	PARENT_ID,
	SITE,
	MODULE,
	ALLOCATIONS,
	ALLOCATED_BYTES,
	FREES,
	FREED_BYTES,
	TEMPORARY,
	FAILED,
	LIVE_BLOCKS,
	LIVE_BYTES,
	PEAK_BLOCKS,
	PEAK_BYTES,
	HEAP,
};

static const struct vtab_column columns[] = {
	{"stack_id", "INTEGER", "number of the stack; 0 is the empty one", PUSH_INTEGER, true},
	{"parent_id", "INTEGER", "the same stack without its innermost frame", PUSH_NOTHING, false},
	{"site", "TEXT", "innermost function that is no allocator's", PUSH_NOTHING, false},
	{"module", "TEXT", "of the site", PUSH_NOTHING, false},
	{"allocations", "INTEGER", "blocks that were born", PUSH_NOTHING, false},
	{"allocated_bytes", "INTEGER", "", PUSH_NOTHING, false},
	{"frees", "INTEGER", "of its blocks", PUSH_NOTHING, false},
	{"freed_bytes", "INTEGER", "", PUSH_NOTHING, false},
	{"temporary", "INTEGER", "of its blocks", PUSH_NOTHING, false},
	{"failed", "INTEGER", "allocations that failed", PUSH_NOTHING, false},
	{"live_blocks", "INTEGER", "at the end of the recording: unfreed", PUSH_NOTHING, false},
	{"live_bytes", "INTEGER", "at the end of the recording: unfreed", PUSH_NOTHING, false},
	{"peak_blocks", "INTEGER", "its share of the peak", PUSH_NOTHING, false},
	{"peak_bytes", "INTEGER", "its share of the peak", PUSH_NOTHING, false},
	{"heap", "TEXT", "that handed its blocks out; NULL for malloc and its kin", PUSH_NOTHING,
	 false},
};

static uint64_t end(const struct sql *sql)
{
	return sql->input.stack_count;
}

static uint64_t figure(const struct model_stack *stack, int column)
{
	switch (column) {
	case ALLOCATIONS:
		return stack->allocations;
	case ALLOCATED_BYTES:
		return stack->allocated_bytes;
	case FREES:
		return stack->frees;
	case FREED_BYTES:
		return stack->freed_bytes;
	case TEMPORARY:
		return stack->temporary;
	case FAILED:
		return stack->failed;
	case LIVE_BLOCKS:
		return stack->live_blocks;
	case LIVE_BYTES:
		return stack->live_bytes;
	case PEAK_BLOCKS:
		return stack->peak_blocks;
	case PEAK_BYTES:
		return stack->peak_bytes;
	}
	return 0;
}

/* The name of the stack's heap, or NULL. Labels are at its leaf. */
static const char *heap_of(const struct sql *sql, uint64_t row)
{
	for (uint32_t id = (uint32_t)row; id; id = sql->input.stacks[id].parent_id) {
		uint32_t module_id = sql->input.stacks[id].module_id;
		const char *path = module_id < sql->input.module_count
					   ? sql->input.modules[module_id].path
					   : NULL;
		const char *name = NULL;
		switch (trace_label_of(path, &name)) {
		case TRACE_LABEL_HEAP:
			return name;
		case TRACE_LABEL_TAG:
			break;
		case TRACE_LABEL_NONE:
			return NULL;
		}
	}
	return NULL;
}

static int value(struct sql *sql, uint64_t row, int column, sqlite3_context *ret)
{
	struct model_stack stack = {0};
	struct site site;
	switch (column) {
	case STACK_ID:
		vtab_put_u64(ret, row);
		break;
	case PARENT_ID:
		if (row > 0)
			vtab_put_u64(ret, sql->input.stacks[row].parent_id);
		break;
	case SITE:
		site_put(ret, sql, (uint32_t)row);
		break;
	case MODULE:
		site_find(sql, (uint32_t)row, &site);
		vtab_put_static(ret, site.module ? view_module_name(site.module) : NULL);
		break;
	case HEAP:
		vtab_put_static(ret, heap_of(sql, row));
		break;
	default:
		/* A stack that never allocated has zeros. */
		if (model_stack_find(sql->model, (uint32_t)row, &stack))
			memset(&stack, 0, sizeof stack);
		vtab_put_u64(ret, figure(&stack, column));
		break;
	}
	return 0;
}

static const struct vtab_rows rows = {
	.load = sql_load_names, .end = end, .key = STACK_ID, .value = value};

const struct vtab table_stacks = {
	.name = "stacks",
	.help = "call paths, with the figures of what they allocated",
	.columns = columns,
	.column_count = sizeof columns / sizeof columns[0],
	.rows = &rows,
};

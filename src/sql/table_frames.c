/* SPDX-License-Identifier: Apache-2.0 */
/* frames: the functions of each stack, the innermost first. */
#include "sql/tables.h"
#include "sql/vtab.h"

enum {
	STACK_ID,
	DEPTH,
	FUNCTION,
	MODULE,
	FILE_NAME,
	LINE,
	ADDRESS,
	INLINED,
	IS_ALLOCATOR,
};

static const struct vtab_column columns[] = {
	{"stack_id", "INTEGER", "", PUSH_INTEGER, true},
	{"depth", "INTEGER", "0 is the innermost", PUSH_INTEGER, false},
	{"function", "TEXT", "NULL if it has no name", PUSH_NOTHING, false},
	{"module", "TEXT", "path", PUSH_NOTHING, false},
	{"file", "TEXT", "NULL if not known", PUSH_NOTHING, false},
	{"line", "INTEGER", "NULL if not known", PUSH_NOTHING, false},
	{"address", "INTEGER", "in the module's file", PUSH_NOTHING, false},
	{"inlined", "INTEGER", "1 if inlined into the next frame", PUSH_NOTHING, false},
	{"is_allocator", "INTEGER", "1 if it allocates for its caller: malloc, operator new",
	 PUSH_NOTHING, false},
};

struct frames {
	const struct vtab_query *query;
	uint64_t stack_id, end; /* the next stack */
	size_t value_at;
	uint64_t shown_id; /* the stack of the present frame */
	uint32_t cursor;
	uint64_t depth;
	const struct view_frame *frame;
};

static int begin(void *state, const struct vtab_query *query, struct tm_error *err)
{
	struct frames *frames = state;
	const struct vtab_filter *ids = &query->filters[STACK_ID];
	frames->query = query;
	frames->end = query->sql->input.stack_count;
	if (ids->max < vtab_i64(frames->end))
		frames->end = ids->max < 0 ? 0 : (uint64_t)ids->max + 1;
	frames->stack_id = ids->min > 0 ? (uint64_t)ids->min : 0;
	return sql_load_names(query->sql, err);
}

static void end(void *state)
{
	(void)state;
}

/* The next stack that the filter lets through; false at the end. */
static bool next_stack(struct frames *frames)
{
	const struct vtab_filter *ids = &frames->query->filters[STACK_ID];
	if (ids->has_values) {
		while (frames->value_at < ids->value_count && ids->values[frames->value_at] < 0)
			frames->value_at++;
		if (frames->value_at == ids->value_count)
			return false;
		frames->stack_id = (uint64_t)ids->values[frames->value_at++];
	}
	if (frames->stack_id >= frames->end)
		return false;
	frames->shown_id = frames->stack_id++;
	frames->cursor = view_stack_of(frames->query->sql->data, (uint32_t)frames->shown_id);
	frames->depth = 0;
	return true;
}

static int next(void *state, bool *ret_row, struct tm_error *err)
{
	struct frames *frames = state;
	const struct view_data *data = frames->query->sql->data;
	const struct vtab_filter *depths = &frames->query->filters[DEPTH];
	(void)err;
	*ret_row = false;
	frames->depth += frames->frame != NULL;
	for (;;) {
		frames->frame = NULL;
		if (vtab_i64(frames->depth) <= depths->max)
			frames->frame = view_next_frame(data, &frames->cursor);
		if (frames->frame) {
			*ret_row = true;
			return 0;
		}
		if (!next_stack(frames))
			return 0;
	}
}

static int value(void *state, int column, sqlite3_context *ret)
{
	const struct frames *frames = state;
	const struct view_frame *frame = frames->frame;
	switch (column) {
	case STACK_ID:
		vtab_put_u64(ret, frames->shown_id);
		break;
	case DEPTH:
		vtab_put_u64(ret, frames->depth);
		break;
	case FUNCTION:
		vtab_put_static(ret, frame->function);
		break;
	case MODULE:
		vtab_put_static(ret, frame->module);
		break;
	case FILE_NAME:
		vtab_put_static(ret, frame->file);
		break;
	case LINE:
		if (frame->line)
			vtab_put_u64(ret, frame->line);
		break;
	case ADDRESS:
		vtab_put_u64(ret, frame->address);
		break;
	case INLINED:
		sqlite3_result_int(ret, frame->inlined);
		break;
	case IS_ALLOCATOR:
		sqlite3_result_int(ret, frame->is_allocator);
		break;
	}
	return 0;
}

enum { FRAMES_PER_STACK = 15 };

static uint64_t estimate(const struct sql *sql)
{
	return sql->input.stack_count * FRAMES_PER_STACK;
}

static const struct vtab_scan scan = {
	.state_bytes = sizeof(struct frames),
	.begin = begin,
	.next = next,
	.value = value,
	.end = end,
	.estimate = estimate,
	.key = STACK_ID,
	.key_rows = FRAMES_PER_STACK,
	.key_cost = FRAMES_PER_STACK,
};

const struct vtab table_frames = {
	.name = "frames",
	.help = "the functions of each stack, the innermost first",
	.columns = columns,
	.column_count = sizeof columns / sizeof columns[0],
	.scan = &scan,
};

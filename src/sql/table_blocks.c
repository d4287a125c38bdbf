/* SPDX-License-Identifier: Apache-2.0 */
/* blocks: one row per allocation, from its birth to its end. */
#include "sql/pairing.h"
#include "sql/site.h"
#include "sql/stack_set.h"
#include "sql/tables.h"
#include "sql/vtab.h"
#include "sql/words.h"

enum {
	BLOCK_ID,
	SIZE,
	STACK_ID,
	SITE,
	THREAD_ID,
	ALLOC_NS,
	FREE_NS,
	LIFETIME_NS,
	FREE_THREAD_ID,
	TEMPORARY,
	ENDED_BY,
	API,
	ALIGN,
	ADDRESS,
	REALLOC_FROM,
	FREE_STACK_ID,
	WEIGHT,
	WEIGHT_BYTES,
};

static const struct vtab_column columns[] = {
	{"block_id", "INTEGER", "number of the allocation, from 0", PUSH_INTEGER, true},
	{"size", "INTEGER", "bytes asked for", PUSH_INTEGER, false},
	{"stack_id", "INTEGER", "of the allocation", PUSH_INTEGER, false},
	{"site", "TEXT", "function_of(stack_id)", PUSH_TEXT, false},
	{"thread_id", "INTEGER", "that allocated it", PUSH_INTEGER, false},
	{"alloc_ns", "INTEGER", "birth, since the start of the recording", PUSH_INTEGER, true},
	{"free_ns", "INTEGER", "end; NULL if live at the end of the recording", PUSH_INTEGER,
	 false},
	{"lifetime_ns", "INTEGER", "free_ns - alloc_ns; NULL if live at the end", PUSH_NOTHING,
	 false},
	{"free_thread_id", "INTEGER", "that ended it; NULL if live at the end", PUSH_NOTHING,
	 false},
	{"temporary", "INTEGER", "1 if freeing it was the next thing its thread did, else 0",
	 PUSH_NOTHING, false},
	{"ended_by", "TEXT", "free, realloc or unseen; NULL if live at the end", PUSH_NOTHING,
	 false},
	{"api", "TEXT", "entry of the allocator: malloc, calloc, realloc, aligned, new, ...",
	 PUSH_NOTHING, false},
	{"align", "INTEGER", "alignment asked for; NULL if none", PUSH_NOTHING, false},
	{"address", "INTEGER", "NULL if not recorded", PUSH_NOTHING, false},
	{"realloc_from", "INTEGER", "block_id that this one continues; NULL if none", PUSH_NOTHING,
	 false},
	{"free_stack_id", "INTEGER", "of the free, with --free-stacks", PUSH_NOTHING, false},
	{"weight", "INTEGER", "blocks that it stands for: 1, or of a sampled one an estimate",
	 PUSH_NOTHING, false},
	{"weight_bytes", "INTEGER", "their bytes", PUSH_NOTHING, false},
};

enum {
	ABOUT_END = 1u << FREE_NS | 1u << LIFETIME_NS | 1u << FREE_THREAD_ID | 1u << TEMPORARY |
		    1u << ENDED_BY | 1u << FREE_STACK_ID,
};

struct blocks {
	const struct vtab_query *query;
	struct stack_set stacks;
	struct pairing pairing;
	struct pairing_block block;
};

/* What the bounds of the wishes do not say. */
static bool admits(void *ctx, const struct trace_event *birth)
{
	const struct vtab_filter *filters = ((const struct blocks *)ctx)->query->filters;
	return vtab_filter_has(&filters[THREAD_ID], birth->thread_id) &&
	       vtab_filter_has(&filters[BLOCK_ID], vtab_i64(birth->block_id));
}

static int begin(void *state, const struct vtab_query *query, struct tm_error *err)
{
	struct blocks *blocks = state;
	const struct vtab_filter *filters = query->filters;
	const struct pairing_wishes wishes = {
		.min_block_id = filters[BLOCK_ID].min,
		.max_block_id = filters[BLOCK_ID].max,
		.min_birth_ns = filters[ALLOC_NS].min,
		.max_birth_ns = filters[ALLOC_NS].max,
		.min_size = filters[SIZE].min,
		.max_size = filters[SIZE].max,
		.max_end_ns = filters[FREE_NS].max,
		.ends = query->columns_used & ABOUT_END,
		.temporary = vtab_uses(query, TEMPORARY),
		.chains = vtab_uses(query, REALLOC_FROM),
		.admits = admits,
		.ctx = blocks,
	};
	blocks->query = query;
	int code = vtab_uses(query, SITE) ? sql_load_names(query->sql, err) : 0;
	if (!code)
		code = stack_set_init(&blocks->stacks, query, STACK_ID, SITE, err);
	if (!code)
		code = pairing_init(&blocks->pairing, query->sql, &wishes, &blocks->stacks, err);
	return code;
}

static void end(void *state)
{
	struct blocks *blocks = state;
	pairing_done(&blocks->pairing);
	stack_set_done(&blocks->stacks);
}

static int next(void *state, bool *ret_row, struct tm_error *err)
{
	struct blocks *blocks = state;
	return pairing_next(&blocks->pairing, &blocks->block, ret_row, err);
}

static void put_end(const struct pairing_block *block, int column, sqlite3_context *ret)
{
	static const char *const words[] = {
		[PAIRING_LIVE] = NULL,
		[PAIRING_FREE] = "free",
		[PAIRING_REALLOC] = "realloc",
		[PAIRING_UNSEEN] = "unseen",
	};
	if (column == TEMPORARY)
		sqlite3_result_int(ret, block->temporary);
	if (block->end == PAIRING_LIVE || column == TEMPORARY)
		return;
	switch (column) {
	case FREE_NS:
		vtab_put_u64(ret, block->end_ns);
		break;
	case LIFETIME_NS:
		vtab_put_u64(ret, block->end_ns > block->birth.birth_ns
					  ? block->end_ns - block->birth.birth_ns
					  : 0);
		break;
	case FREE_THREAD_ID:
		vtab_put_u64(ret, block->end_thread_id);
		break;
	case ENDED_BY:
		vtab_put_static(ret, words[block->end]);
		break;
	case FREE_STACK_ID:
		if (block->end_stack_id)
			vtab_put_u64(ret, block->end_stack_id);
		break;
	}
}

/* Which of several alike blocks ended is not known: a lifetime would be made up. */
static bool is_unknown(const struct blocks *blocks, int column)
{
	const struct trace_meta *meta = blocks->query->sql->input.meta;
	return column == LIFETIME_NS && meta && meta->unknown & TRACE_UNKNOWN_LIFETIMES;
}

static int value(void *state, int column, sqlite3_context *ret)
{
	const struct blocks *blocks = state;
	const struct open_block *birth = &blocks->block.birth;
	switch (column) {
	case BLOCK_ID:
		vtab_put_u64(ret, birth->key - 1);
		break;
	case SIZE:
		vtab_put_u64(ret, trace_word_size(birth->size_bytes));
		break;
	case WEIGHT:
		vtab_put_u64(ret, trace_weigh(birth->size_bytes, birth->key - 1).count);
		break;
	case WEIGHT_BYTES:
		vtab_put_u64(ret, trace_weigh(birth->size_bytes, birth->key - 1).bytes);
		break;
	case STACK_ID:
		vtab_put_u64(ret, birth->stack_id);
		break;
	case SITE:
		site_put(ret, blocks->query->sql, birth->stack_id);
		break;
	case THREAD_ID:
		vtab_put_u64(ret, birth->thread_id);
		break;
	case ALLOC_NS:
		vtab_put_u64(ret, birth->birth_ns);
		break;
	case API:
		vtab_put_static(ret, words_api(birth->api));
		break;
	case ALIGN:
		if (birth->align_log2 > 0 && birth->align_log2 < 63)
			vtab_put_u64(ret, UINT64_C(1) << birth->align_log2);
		break;
	case ADDRESS:
		if (birth->address)
			vtab_put_u64(ret, birth->address);
		break;
	case REALLOC_FROM:
		if (birth->realloc_from != TRACE_NO_BLOCK)
			vtab_put_u64(ret, birth->realloc_from);
		break;
	default:
		if (!is_unknown(blocks, column))
			put_end(&blocks->block, column, ret);
		break;
	}
	return 0;
}

static uint64_t estimate(const struct sql *sql)
{
	return sql->event_count / 2;
}

static const struct vtab_scan scan = {
	.state_bytes = sizeof(struct blocks),
	.begin = begin,
	.next = next,
	.value = value,
	.end = end,
	.estimate = estimate,
	.key = BLOCK_ID,
	.key_rows = 1,
	.key_cost = 30000, /* a block of events is decoded */
	.unsorted_by = ABOUT_END,
};

const struct vtab table_blocks = {
	.name = "blocks",
	.help = "one row per allocation, from its birth to its end",
	.columns = columns,
	.column_count = sizeof columns / sizeof columns[0],
	.scan = &scan,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* maps: memory that the program mapped itself. */
#include "sql/site.h"
#include "sql/tables.h"
#include "sql/vtab.h"
#include "sql/words.h"

enum { TIME_NS, OP, ADDRESS, BYTES, MOVED_FROM, STACK_ID, SITE, THREAD_ID, IS_FILE, IS_RESTATED };

static const struct vtab_column columns[] = {
	{"time_ns", "INTEGER", "since the start of the recording", PUSH_NOTHING, true},
	{"op", "TEXT", "map, unmap, protect, advise, brk, or folded: older calls", PUSH_NOTHING,
	 false},
	{"address", "INTEGER", "of brk: the old break; folded: how many calls", PUSH_NOTHING,
	 false},
	{"bytes", "INTEGER", "of brk: the new break", PUSH_NOTHING, false},
	{"moved_from", "INTEGER", "of mremap: the old address", PUSH_NOTHING, false},
	{"stack_id", "INTEGER", "", PUSH_NOTHING, false},
	{"site", "TEXT", "function_of(stack_id)", PUSH_NOTHING, false},
	{"thread_id", "INTEGER", "", PUSH_NOTHING, false},
	{"is_file", "INTEGER", "1 if a file is behind it", PUSH_NOTHING, false},
	{"is_restated", "INTEGER",
	 "1 if it is no call, but what folded ones left, or one that failed did not unmap",
	 PUSH_NOTHING, false},
};

static int load(struct sql *sql, struct tm_error *err)
{
	int code = sql_load_names(sql, err);
	return code ? code : trace_reader_maps(sql->reader, &sql->maps, &sql->map_count, err);
}

static uint64_t end(const struct sql *sql)
{
	return sql->map_count;
}

static int value(struct sql *sql, uint64_t row, int column, sqlite3_context *ret)
{
	const struct trace_map_event *map = &sql->maps[row];
	switch (column) {
	case TIME_NS:
		vtab_put_u64(ret, map->time_ns);
		break;
	case OP:
		vtab_put_static(ret, words_map_op(map->op));
		break;
	case ADDRESS:
		vtab_put_u64(ret, map->address);
		break;
	case BYTES:
		vtab_put_u64(ret, map->bytes);
		break;
	case MOVED_FROM:
		if (map->moved_from)
			vtab_put_u64(ret, map->moved_from);
		break;
	case STACK_ID:
		vtab_put_u64(ret, map->stack_id);
		break;
	case SITE:
		site_put(ret, sql, map->stack_id);
		break;
	case THREAD_ID:
		vtab_put_u64(ret, map->thread_id);
		break;
	case IS_FILE:
		sqlite3_result_int(ret, !!(map->flags & TRACE_MAP_FILE));
		break;
	case IS_RESTATED:
		sqlite3_result_int(ret, !!(map->flags & TRACE_MAP_RESTATED));
		break;
	}
	return 0;
}

static const struct vtab_rows rows = {.load = load, .end = end, .key = -1, .value = value};

const struct vtab table_maps = {
	.name = "maps",
	.help = "memory that the program mapped itself",
	.columns = columns,
	.column_count = sizeof columns / sizeof columns[0],
	.rows = &rows,
};

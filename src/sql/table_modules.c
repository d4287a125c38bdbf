/* SPDX-License-Identifier: Apache-2.0 */
/* modules: the program and the libraries that were mapped. */
#include <stdio.h>

#include "sql/tables.h"
#include "sql/vtab.h"

enum { MODULE_ID, NAME, PATH, START_ADDRESS, END_ADDRESS, BUILD_ID, MAPPED_NS, UNMAPPED_NS };

static const struct vtab_column columns[] = {
	{"module_id", "INTEGER", "number of the module, from 1", PUSH_INTEGER, true},
	{"name", "TEXT", "the path's last part", PUSH_NOTHING, false},
	{"path", "TEXT", "", PUSH_NOTHING, false},
	{"start_address", "INTEGER", "", PUSH_NOTHING, false},
	{"end_address", "INTEGER", "", PUSH_NOTHING, false},
	{"build_id", "TEXT", "in hexadecimal; NULL if it has none", PUSH_NOTHING, false},
	{"mapped_ns", "INTEGER", "when it appeared", PUSH_NOTHING, false},
	{"unmapped_ns", "INTEGER", "when it went; NULL if it stayed", PUSH_NOTHING, false},
};

static uint64_t end(const struct sql *sql)
{
	return sql->input.module_count;
}

static void put_build_id(sqlite3_context *ret, const struct trace_module *module)
{
	char text[2 * sizeof module->build_id + 1];
	size_t bytes = module->build_id_bytes;
	if (bytes == 0 || bytes > sizeof module->build_id)
		return;
	for (size_t i = 0; i < bytes; i++)
		snprintf(text + 2 * i, 3, "%02x", module->build_id[i]);
	vtab_put_text(ret, text);
}

static int value(struct sql *sql, uint64_t row, int column, sqlite3_context *ret)
{
	const struct trace_module *module = &sql->input.modules[row];
	const char *path = module->path ? module->path : "";
	switch (column) {
	case MODULE_ID:
		vtab_put_u64(ret, row);
		break;
	case NAME:
		vtab_put_static(ret, view_module_name(path));
		break;
	case PATH:
		vtab_put_static(ret, path);
		break;
	case START_ADDRESS:
		vtab_put_u64(ret, module->start);
		break;
	case END_ADDRESS:
		vtab_put_u64(ret, module->end);
		break;
	case BUILD_ID:
		put_build_id(ret, module);
		break;
	case MAPPED_NS:
		vtab_put_u64(ret, module->mapped_ns);
		break;
	case UNMAPPED_NS:
		vtab_put_time(ret, module->unmapped_ns);
		break;
	}
	return 0;
}

static const struct vtab_rows rows = {.first = 1, .end = end, .key = MODULE_ID, .value = value};

const struct vtab table_modules = {
	.name = "modules",
	.help = "the program and its libraries",
	.columns = columns,
	.column_count = sizeof columns / sizeof columns[0],
	.rows = &rows,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A SQLite database of its own, for tools that read such: the same rows as the
 * views have, with every block of the range. `tidemark sql` asks a trace without
 * making one.
 */
#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <string.h>

#include "export/formats.h"
#include "export/rows.h"
#include "export/table.h"

/* One transaction into a new file that appears whole or not at all: no journal is needed. */
static const char schema[] =
	"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-4096;"
	"BEGIN;"
	"CREATE TABLE info(key TEXT PRIMARY KEY, value);"
	"CREATE TABLE frames(frame INTEGER PRIMARY KEY, function TEXT, module TEXT, file TEXT, "
	"line "
	"INTEGER, address INTEGER, inlined INTEGER, package TEXT);"
	"CREATE TABLE stacks(stack INTEGER PRIMARY KEY, site TEXT, allocations INTEGER, "
	"allocated_bytes INTEGER, frees INTEGER, freed_bytes INTEGER, temporary_allocations "
	"INTEGER, "
	"failed_allocations INTEGER, peak_allocations INTEGER, peak_bytes INTEGER, "
	"unfreed_allocations INTEGER, unfreed_bytes INTEGER, surviving_allocations INTEGER, "
	"surviving_bytes INTEGER);"
	"CREATE TABLE stack_frames(stack INTEGER, depth INTEGER, frame INTEGER, "
	"PRIMARY KEY(stack, depth)) WITHOUT ROWID;"
	"CREATE TABLE threads(thread INTEGER PRIMARY KEY, tid INTEGER, name TEXT, start_ns "
	"INTEGER, "
	"end_ns INTEGER);"
	"CREATE TABLE modules(module INTEGER PRIMARY KEY, path TEXT, build_id TEXT, start INTEGER, "
	"end INTEGER, bias INTEGER);"
	"CREATE TABLE timeline(start_ns INTEGER, end_ns INTEGER, live_bytes INTEGER, "
	"live_allocations INTEGER, min_live_bytes INTEGER, max_live_bytes INTEGER, allocations "
	"INTEGER, allocated_bytes INTEGER, frees INTEGER, freed_bytes INTEGER, "
	"temporary_allocations INTEGER, mapped_bytes INTEGER, rss_bytes INTEGER);"
	"CREATE TABLE blocks(block INTEGER PRIMARY KEY, address TEXT, bytes INTEGER, birth_ns "
	"INTEGER, end_ns INTEGER, thread INTEGER, free_thread INTEGER, stack INTEGER, site TEXT, "
	"temporary INTEGER);";

struct database {
	const struct export_input *input;
	sqlite3 *db;
	sqlite3_stmt *insert; /* into the table that is being filled */
	bool is_blocks;       /* their stacks are as recorded: the views' are meant */
	struct tm_error *err;
};

static int fail(struct database *d)
{
	int code = sqlite3_errcode(d->db) == SQLITE_FULL ? -ENOSPC : -EIO;
	return tm_fail(d->err, code, "the database cannot be written: %s", sqlite3_errmsg(d->db));
}

static int prepare(struct database *d, const char *table, size_t columns)
{
	struct text text = {0};
	text_print(&text, "INSERT INTO %s VALUES(", table);
	for (size_t i = 0; i < columns; i++)
		text_put(&text, i ? ",?" : "?");
	text_put(&text, ")");
	sqlite3_finalize(d->insert);
	d->insert = NULL;
	int state = text_error(&text)
			    ? SQLITE_NOMEM
			    : sqlite3_prepare_v2(d->db, text_string(&text), -1, &d->insert, NULL);
	text_done(&text);
	return state == SQLITE_OK ? 0 : fail(d);
}

static void bind_text(struct database *d, int column, const char *text)
{
	if (text)
		sqlite3_bind_text(d->insert, column, text, -1, SQLITE_TRANSIENT);
	else
		sqlite3_bind_null(d->insert, column);
}

static void bind_number(struct database *d, int column, uint64_t number)
{
	sqlite3_bind_int64(d->insert, column, (sqlite3_int64)number);
}

static int step(struct database *d)
{
	int state = sqlite3_step(d->insert);
	sqlite3_reset(d->insert);
	return state == SQLITE_DONE ? 0 : fail(d);
}

/* ---- tables that are views as well ---- */

static int take_columns(void *ctx, const struct table_columns *columns)
{
	(void)ctx;
	(void)columns;
	return 0;
}

static int take_row(void *ctx, const struct table_value *values, size_t count)
{
	enum { BLOCKS_STACK = 7 };
	struct database *d = ctx;
	for (size_t i = 0; i < count; i++) {
		uint64_t number = values[i].number;
		if (d->is_blocks && i == BLOCKS_STACK)
			number = view_node_of(d->input->data, (uint32_t)number);
		if (values[i].type == TABLE_NUMBER)
			bind_number(d, (int)i + 1, number);
		else
			bind_text(d, (int)i + 1,
				  values[i].type == TABLE_TEXT ? values[i].text : NULL);
	}
	return step(d);
}

static int fill_from(struct database *d, const char *table, const char *view, size_t columns)
{
	const struct table_sink sink = {.begin = take_columns, .row = take_row, .ctx = d};
	struct export_input input = *d->input;
	input.limit = 0;
	if (!strcmp(view, "blocks")) /* all of the range, whatever the mode */
		input.mode = view_mode_find("peak");
	d->is_blocks = !strcmp(view, "blocks");
	int code = prepare(d, table, columns);
	return code ? code : table_run(&input, view, &sink, d->err);
}

/* ---- frames and stacks ---- */

static int fill_frames(struct database *d)
{
	int code = prepare(d, "frames", 8);
	for (uint32_t i = 0; !code && i < view_frame_count(d->input->data); i++) {
		const struct view_frame *frame = view_frame_at(d->input->data, i);
		bind_number(d, 1, i);
		bind_text(d, 2, frame->function);
		bind_text(d, 3, frame->module);
		bind_text(d, 4, frame->file);
		bind_number(d, 5, frame->line);
		bind_number(d, 6, frame->address);
		bind_number(d, 7, frame->inlined);
		bind_text(d, 8, frame->package && frame->package[0] ? frame->package : NULL);
		code = step(d);
	}
	return code;
}

static const char *site_of(const struct database *d, uint32_t stack)
{
	const struct view_frame *frame, *first = NULL;
	while ((frame = view_next_frame(d->input->data, &stack))) {
		first = first ? first : frame;
		if (!frame->is_allocator)
			return frame->function;
	}
	return first ? first->function : NULL;
}

static int fill_stacks(struct database *d)
{
	size_t count;
	const struct view_stack_row *rows = view_stacks(d->input->data, &count);
	int code = prepare(d, "stacks", 2 + VIEW_FIGURE_COUNT);
	for (size_t i = 0; !code && i < count; i++) {
		bind_number(d, 1, rows[i].stack);
		bind_text(d, 2, site_of(d, rows[i].stack));
		for (int k = 0; k < VIEW_FIGURE_COUNT; k++)
			bind_number(d, 3 + k, rows[i].figures.of[k]);
		code = step(d);
	}
	if (!code)
		code = prepare(d, "stack_frames", 3);
	for (size_t i = 0; !code && i < count; i++) {
		uint32_t cursor = rows[i].stack;
		const struct view_frame *frame;
		for (uint64_t depth = 0;
		     !code && (frame = view_next_frame(d->input->data, &cursor)); depth++) {
			bind_number(d, 1, rows[i].stack);
			bind_number(d, 2, depth);
			bind_number(d, 3, view_frame_number(d->input->data, frame));
			code = step(d);
		}
	}
	return code;
}

static int fill_info(struct database *d)
{
	const struct trace_meta *meta = d->input->facts->meta;
	const struct {
		const char *key, *text;
		uint64_t number;
	} facts[] = {
		{"command", export_command(d->input), 0},
		{"program", meta->program, 0},
		{"host", meta->host, 0},
		{"tool_version", meta->tool_version, 0},
		{"pid", NULL, meta->pid},
		{"start_unix_ns", NULL, meta->start_unix_ns},
		{"from_ns", NULL, d->input->from_ns},
		{"to_ns", NULL, d->input->to_ns},
	};
	int code = prepare(d, "info", 2);
	for (size_t i = 0; !code && i < sizeof facts / sizeof facts[0]; i++) {
		bind_text(d, 1, facts[i].key);
		if (facts[i].text)
			bind_text(d, 2, facts[i].text);
		else
			bind_number(d, 2, facts[i].number);
		code = step(d);
	}
	return code;
}

static int fill(struct database *d)
{
	int code = fill_info(d);
	if (!code)
		code = fill_frames(d);
	if (!code)
		code = fill_stacks(d);
	if (!code)
		code = fill_from(d, "threads", "threads", 5);
	if (!code)
		code = fill_from(d, "modules", "modules_mapped", 6);
	if (!code)
		code = fill_from(d, "timeline", "timeline", 13);
	if (!code)
		code = fill_from(d, "blocks", "blocks", 10);
	return code;
}

static int write_sqlite(const struct export_input *input, const char *path, struct tm_error *err)
{
	static const char index[] = "CREATE INDEX blocks_stack ON blocks(stack); COMMIT;";
	struct database d = {.input = input, .err = err};
	int code = 0;
	if (sqlite3_open_v2(path, &d.db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK ||
	    sqlite3_exec(d.db, schema, NULL, NULL, NULL) != SQLITE_OK)
		code = fail(&d);
	if (!code)
		code = fill(&d);
	sqlite3_finalize(d.insert);
	if (!code && sqlite3_exec(d.db, index, NULL, NULL, NULL) != SQLITE_OK)
		code = fail(&d);
	if (sqlite3_close(d.db) != SQLITE_OK && !code)
		code = tm_fail(err, -EIO, "the database cannot be closed");
	return code;
}

const struct export_format export_sqlite = {
	.name = "sqlite",
	.help = "a SQLite database: blocks, stacks, frames, threads, modules, timeline",
	.suffix = ".db",
	.type = "application/vnd.sqlite3",
	.binary = true,
	.write_file = write_sqlite,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark sql FILE [QUERY]: questions about a trace in SQL. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/foreign.h"
#include "cli/progress.h"
#include "cli/sql_line.h"
#include "cli/sql_output.h"
#include "cli/traces.h"
#include "cli/values.h"
#include "sql/sql.h"

enum { OPT_CSV = 1, OPT_JSON, OPT_SECTION, OPT_COLOR, OPT_HELP };
enum { STATUS_STOPPED = 130 };

static const struct args_option options[] = {
	{OPT_CSV, 0, "csv", NULL, "print comma-separated values with a line of names"},
	{OPT_JSON, 'j', "json", NULL, "print an array of objects for each statement"},
	{OPT_SECTION, 's', "section", "N",
	 "which image of the process after execs, from 0; the last if not given"},
	{OPT_COLOR, 0, "color", "WHEN", "auto, always or never"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};

struct request {
	const char *path, *query;
	enum sql_format format;
	enum out_color color;
	uint64_t section;
	bool has_section, help;
};

struct session {
	const struct request *request;
	struct sql *sql;
	struct sql_output output;
	struct progress progress;
	struct sql_progress told; /* what was told last of the statement that runs */
	bool interactive, quit;
	char warned[400]; /* what was warned of already */
};

static void print_help(void)
{
	puts("Usage: tidemark sql [OPTIONS] FILE [QUERY]\n"
	     "\n"
	     "Answers questions about a trace in SQL (SQLite's), over tables that read the file\n"
	     "as they are asked: blocks, events, stacks, frames, threads, modules, timeline and\n"
	     "more. The trace is only read. Without a query it reads statements, each ended by\n"
	     "a semicolon, from a prompt or from standard input; '.help' lists its commands.\n"
	     "docs/sql.md describes the tables and answers twenty questions.\n"
	     "\n"
	     "Options:");
	args_print_options(options, sizeof options / sizeof options[0]);
	foreign_print_options();
}

static bool parse_word(struct request *request, const char *word)
{
	if (!request->path) {
		request->path = word;
	} else if (!request->query) {
		request->query = word;
	} else {
		fprintf(stderr,
			"tidemark sql: '%s' comes after the query: put the whole query in "
			"quotes.\n",
			word);
		return false;
	}
	return true;
}

static bool parse_option(const struct args *args, struct request *request, int id,
			 const char *value)
{
	switch (id) {
	case ARGS_WORD:
		return parse_word(request, value);
	case OPT_CSV:
		request->format = SQL_FORMAT_CSV;
		return true;
	case OPT_JSON:
		request->format = SQL_FORMAT_JSON;
		return true;
	case OPT_SECTION:
		request->has_section = true;
		return args_number(args, "--section", value, UINT32_MAX, &request->section);
	case OPT_COLOR:
		return values_color(args, value, &request->color);
	case OPT_HELP:
		request->help = true;
		return true;
	}
	return false;
}

static bool parse(struct args *args, struct request *request)
{
	const char *value = NULL;
	int id;
	while (!request->help && (id = args_next(args, &value)) != ARGS_END)
		if (!parse_option(args, request, id, value))
			return false;
	return request->help || values_need_trace(args, request->path);
}

/* ---- statements ---- */

static int on_progress(void *ctx, const struct sql_progress *told)
{
	struct session *session = ctx;
	/* Between scans the last one is shown, and Ctrl-C counts. */
	if (told->total_events)
		session->told = *told;
	return progress_tell(&session->progress, session->told.done_events,
			     session->told.total_events);
}

/* Rows and the progress line must not mix on a terminal. */
static void clear_progress(void *ctx)
{
	struct progress *progress = &((struct session *)ctx)->progress;
	if (progress->shown)
		fputs("\r\033[K", stderr);
	progress->shown = false;
}

static void warn(struct session *session)
{
	const char *warning = sql_warning(session->sql);
	if (!warning || !strcmp(warning, session->warned))
		return;
	snprintf(session->warned, sizeof session->warned, "%s", warning);
	fprintf(stderr, "tidemark sql: %s.\n", warning);
}

/* At the prompt: how many rows, how long, and how much of the trace was read for it. */
static void print_footer(uint64_t rows, uint64_t took_ns, const struct sql_stats *before,
			 const struct sql_stats *after)
{
	uint64_t read = after->blocks_read - before->blocks_read;
	uint64_t skipped = after->blocks_skipped - before->blocks_skipped;
	printf("(%llu row%s, %s", (unsigned long long)rows, rows == 1 ? "" : "s",
	       units_duration(took_ns).text);
	if (read + skipped > 0)
		printf("; %llu blocks of events read, %llu passed over", (unsigned long long)read,
		       (unsigned long long)skipped);
	puts(")");
}

static int run_statement(struct session *session, const char **text)
{
	struct sql_sink sink = sql_output_sink(&session->output);
	struct tm_error err = {0};
	struct sql_stats before, after;
	uint64_t start_ns = clock_steady_ns();
	sql_stats(session->sql, &before);
	session->told = (struct sql_progress){0};
	progress_begin(&session->progress, "reading", "events");
	int code = sql_run(session->sql, *text, text, &sink, &err);
	progress_end(&session->progress);
	uint64_t rows = session->output.rows;
	bool has_rows = session->output.count > 0;
	int written = sql_output_end(&session->output);
	sql_stats(session->sql, &after);
	if (written && written != -EPIPE)
		fprintf(stderr, "tidemark: standard output cannot be written: %s.\n",
			strerror(-written));
	if (code && code != -EPIPE && !written)
		traces_complain("sql", &err);
	else if (!code && session->interactive && has_rows)
		print_footer(rows, clock_steady_ns() - start_ns, &before, &after);
	fflush(stdout);
	return written ? written : code;
}

/* Runs all statements of the text. 0, or the first failure after it was told. */
static int run_text(struct session *session, const char *text)
{
	int code = 0;
	while (*text && !code) {
		code = run_statement(session, &text);
		warn(session);
	}
	return code;
}

/* ---- the prompt's own commands ---- */

static void print_tables(void)
{
	struct sql_help help;
	for (size_t i = 0; sql_table_help(i, &help); i++)
		printf("%-16s %s\n", help.name, help.help);
}

static bool print_schema(const char *table)
{
	struct sql_help column;
	const char *type;
	if (!sql_column_help(table, 0, &column, &type))
		return false;
	printf("CREATE TABLE %s (\n", table);
	for (size_t i = 0; sql_column_help(table, i, &column, &type); i++) {
		struct sql_help next;
		const char *next_type;
		bool last = !sql_column_help(table, i + 1, &next, &next_type);
		printf("  %s%s%s%s", column.name, type[0] ? " " : "", type, last ? "" : ",");
		if (column.help[0])
			printf(" -- %s", column.help);
		putchar('\n');
	}
	puts(");");
	return true;
}

static void print_schemas(const char *table)
{
	struct sql_help help;
	if (table[0]) {
		if (!print_schema(table))
			fprintf(stderr, "There is no table '%s'; '.tables' lists them.\n", table);
		return;
	}
	for (size_t i = 0; sql_table_help(i, &help); i++)
		(void)print_schema(help.name);
}

static void print_commands(void)
{
	struct sql_help help;
	puts("Statements end with ';'. Ctrl-C stops a query.\n"
	     "\n"
	     ".tables          the tables\n"
	     ".schema [TABLE]  their columns\n"
	     ".mode MODE       show rows as table, csv or json\n"
	     ".help            this help\n"
	     ".quit            leave\n"
	     "\n"
	     "Functions beside SQLite's:");
	for (size_t i = 0; sql_function_help(i, &help); i++)
		printf("  %-32s %s\n", help.name, help.help);
}

static void set_mode(struct session *session, const char *mode)
{
	static const char *const modes[] = {"table", "csv", "json"};
	for (unsigned i = 0; i < sizeof modes / sizeof modes[0]; i++)
		if (!strcmp(mode, modes[i])) {
			session->output.format = (enum sql_format)i;
			return;
		}
	fprintf(stderr, "'.mode' takes table, csv or json, not '%s'.\n", mode);
}

static void run_command(struct session *session, const char *line)
{
	char word[32] = "", rest[64] = "";
	sscanf(line, " %31s %63s", word, rest);
	if (!strcmp(word, ".quit") || !strcmp(word, ".exit"))
		session->quit = true;
	else if (!strcmp(word, ".tables"))
		print_tables();
	else if (!strcmp(word, ".schema"))
		print_schemas(rest);
	else if (!strcmp(word, ".mode"))
		set_mode(session, rest);
	else if (!strcmp(word, ".help"))
		print_commands();
	else
		fprintf(stderr, "There is no command '%s'; '.help' lists them.\n", word);
	fflush(stdout);
}

/* ---- where statements come from ---- */

static bool is_blank(const char *text)
{
	return text[strspn(text, " \t\r\n")] == '\0';
}

/* A line was read: runs what is complete. The failure of the last statement. */
static int take_line(struct session *session, struct text *statement, const char *line)
{
	if (is_blank(text_string(statement)) && line[strspn(line, " \t")] == '.') {
		run_command(session, line);
		return 0;
	}
	text_put(statement, line);
	text_put_char(statement, '\n');
	if (text_error(statement))
		return -ENOMEM;
	if (!sql_is_complete(text_string(statement)))
		return 0;
	int code = run_text(session, text_string(statement));
	text_clear(statement);
	return code;
}

static int run_prompt(struct session *session)
{
	struct sql_line line;
	struct text statement = {0}, typed = {0};
	int code = 0;
	printf("Tables: blocks, events, stacks, frames, threads, modules, timeline, ...\n"
	       "Type '.help' for help, '.quit' to leave.\n");
	fflush(stdout);
	sql_line_init(&line);
	while (!session->quit && code != -EPIPE) {
		bool more = !is_blank(text_string(&statement));
		code = sql_line_read(&line, more ? "     ...> " : "tidemark> ", &typed);
		if (code == -EINTR) {
			text_clear(&statement);
			continue;
		}
		if (code)
			break;
		if (!is_blank(text_string(&typed)))
			sql_line_remember(&line, text_string(&typed));
		code = take_line(session, &statement, text_string(&typed));
	}
	sql_line_done(&line);
	text_done(&statement);
	text_done(&typed);
	return 0;
}

static int run_input(struct session *session)
{
	struct text statement = {0};
	char *line = NULL;
	size_t room = 0;
	ssize_t bytes;
	int code = 0;
	while (!code && !session->quit && (bytes = getline(&line, &room, stdin)) >= 0) {
		if (bytes > 0 && line[bytes - 1] == '\n')
			line[bytes - 1] = '\0';
		code = take_line(session, &statement, line);
	}
	/* The last semicolon may be missing. */
	if (!code && !session->quit && !is_blank(text_string(&statement)))
		code = run_text(session, text_string(&statement));
	free(line);
	text_done(&statement);
	return code;
}

static int run(struct session *session)
{
	if (session->request->query)
		return run_text(session, session->request->query);
	session->interactive = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	return session->interactive ? run_prompt(session) : run_input(session);
}

static int open_and_run(const struct request *request)
{
	struct session session = {.request = request};
	struct tm_error err = {0};
	const struct sql_options wanted = {
		.has_section = request->has_section,
		.section = (size_t)request->section,
		.progress = on_progress,
		.progress_ctx = &session,
	};
	struct trace_reader *reader;
	int code = traces_open(request->path, &reader, &err);
	if (!code)
		code = sql_open(reader, &wanted, &session.sql, &err);
	if (code) {
		traces_complain("sql", &err);
		return 1;
	}
	signal(SIGPIPE, SIG_IGN);
	sql_output_init(&session.output, request->format, request->color);
	session.output.before = clear_progress;
	session.output.before_ctx = &session;
	warn(&session);
	code = run(&session);
	sql_output_done(&session.output);
	sql_close(session.sql);
	if (code == -ECANCELED)
		return STATUS_STOPPED;
	return code && code != -EPIPE ? 1 : 0;
}

int cmd_sql(int argc, char **argv)
{
	struct args args = ARGS_OF("sql", argc, argv, options);
	args.shared = &foreign_args;
	struct request request = {0};
	if (!parse(&args, &request))
		return 2;
	if (request.help) {
		print_help();
		return 0;
	}
	return open_and_run(&request);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark list: what is being recorded, and what could be. */
#include <errno.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/units.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/grid.h"
#include "cli/out.h"
#include "cli/processes.h"
#include "cli/sessions.h"
#include "cli/sessions_put.h"

enum { OPT_SESSIONS = 1, OPT_JSON, OPT_HELP, USAGE = 2 };

static const struct args_option options[] = {
	{OPT_SESSIONS, 's', "sessions", NULL, "only what is being recorded"},
	{OPT_JSON, 'j', "json", NULL, "print JSON"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};

enum { OPTION_COUNT = sizeof options / sizeof options[0] };

struct request {
	bool sessions, json, help;
};

static void print_help(void)
{
	puts("Usage: tidemark list [OPTIONS]\n"
	     "\n"
	     "Shows what is being recorded: by whom, since when, into which file; then the\n"
	     "processes in which an agent sleeps, and the others of this user with whether\n"
	     "'tidemark attach' can enter them, and why not.\n"
	     "\n"
	     "Options:");
	args_print_options(options, OPTION_COUNT);
}

static bool parse(struct args *args, struct request *request)
{
	const char *value = NULL;
	int id;
	while ((id = args_next(args, &value)) != ARGS_END) {
		if (id == ARGS_ERROR)
			return false;
		request->sessions |= id == OPT_SESSIONS;
		request->json |= id == OPT_JSON;
		request->help |= id == OPT_HELP;
		if (id == ARGS_WORD) {
			fprintf(stderr, "tidemark list: takes no words: '%s'.\n", value);
			return false;
		}
	}
	return true;
}

static void put_sessions(const struct sessions *sessions, struct out *out)
{
	static const struct grid_column columns[] = {
		{.title = "pid", .align = GRID_RIGHT},
		{.title = "tidemark", .align = GRID_RIGHT},
		{.title = "state", .align = GRID_LEFT},
		{.title = "for", .align = GRID_RIGHT},
		{.title = "file size", .align = GRID_RIGHT},
		{.title = "program", .align = GRID_LEFT},
		{.title = "file", .align = GRID_TEXT},
	};
	struct grid grid = {.columns = columns, .column_count = sizeof columns / sizeof columns[0]};
	for (size_t i = 0; i < sessions->row_count; i++) {
		const struct control_process *process = &sessions->rows[i].process;
		grid_cell(&grid, "%d", process->pid);
		grid_cell(&grid, "%d", process->tool_pid);
		grid_cell(&grid, "%s", sessions_state_name(process->state));
		grid_cell(&grid, "%s", units_duration(process->age_ns).text);
		grid_cell(&grid, "%s", units_bytes(process->file_bytes).text);
		grid_cell(&grid, "%s", sessions_program_name(process->program));
		grid_cell(&grid, "%s", process->file);
	}
	if (sessions->row_count)
		grid_print(&grid, out, 0);
	else
		text_put(&out->text, "Nothing is being recorded.\n");
	grid_done(&grid);
}

static void put_processes(const struct processes *processes, struct out *out)
{
	static const struct grid_column columns[] = {
		{.title = "pid", .align = GRID_RIGHT}, {.title = "state", .align = GRID_LEFT},
		{.title = "age", .align = GRID_RIGHT}, {.title = "program", .align = GRID_LEFT},
		{.title = "", .align = GRID_TEXT},
	};
	struct grid grid = {.columns = columns, .column_count = sizeof columns / sizeof columns[0]};
	for (size_t i = 0; i < processes->count; i++) {
		const struct process_row *row = &processes->rows[i];
		grid_cell(&grid, "%d", (int)row->pid);
		grid_cell(&grid, "%s",
			  row->dormant      ? "dormant"
			  : row->attachable ? "attachable"
					    : "no");
		grid_cell(&grid, "%s", units_duration(row->age_ns).text);
		grid_cell(&grid, "%s", sessions_program_name(row->program));
		grid_cell(&grid, "%s", row->why);
	}
	if (processes->count) {
		text_put_char(&out->text, '\n');
		grid_print(&grid, out, 0);
	}
	grid_done(&grid);
}

static void put_json(const struct sessions *sessions, const struct processes *processes,
		     struct json *json)
{
	json_begin_object(json, NULL);
	json_begin_array(json, "sessions");
	for (size_t i = 0; i < sessions->row_count; i++)
		sessions_put_json(json, &sessions->rows[i].process);
	json_end(json);
	json_begin_array(json, "processes");
	for (size_t i = 0; i < processes->count; i++) {
		const struct process_row *row = &processes->rows[i];
		json_begin_object(json, NULL);
		json_u64(json, "pid", (uint64_t)row->pid);
		json_string(json, "program", row->program);
		json_u64(json, "age_ns", row->age_ns);
		json_bool(json, "dormant", row->dormant);
		json_bool(json, "attachable", row->attachable || row->dormant);
		json_string(json, "why", row->why[0] ? row->why : NULL);
		json_end(json);
	}
	json_end(json);
	json_end(json);
}

/* Those that are recorded stand in the first table. */
static int find_processes(const struct sessions *sessions, struct processes *ret,
			  struct tm_error *err)
{
	pid_t *recorded = tm_alloc_array(sessions->row_count + 1, sizeof *recorded);
	size_t count = 0;
	if (!recorded)
		return tm_fail(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < sessions->row_count; i++)
		if (sessions->rows[i].process.state != CONTROL_OFF)
			recorded[count++] = (pid_t)sessions->rows[i].process.pid;
	int error = processes_find(recorded, count, ret, err);
	tm_free(recorded);
	return error;
}

/* Sessions of other users are not asked. */
static void put_others(const struct sessions *sessions, struct out *out)
{
	for (size_t i = 0; i < sessions->peer_count; i++)
		if (!sessions->peers[i].is_ours)
			text_print(&out->text,
				   "tidemark %d records for user %u: only that user and root may "
				   "know more.\n",
				   (int)sessions->peers[i].pid, (unsigned)sessions->peers[i].uid);
}

static int print_list(const struct request *request)
{
	struct sessions sessions;
	struct processes processes = {0};
	struct tm_error err = {0};
	struct out out;
	int error = sessions_find(&sessions, &err);
	if (!error && !request->sessions)
		error = find_processes(&sessions, &processes, &err);
	if (error) {
		fprintf(stderr, "tidemark list: %s\n", err.text);
		sessions_done(&sessions);
		return 1;
	}
	out_init(&out, OUT_COLOR_AUTO);
	if (request->json) {
		struct json json = {.out = &out.text, .pretty = true};
		put_json(&sessions, &processes, &json);
		text_put_char(&out.text, '\n');
	} else {
		put_sessions(&sessions, &out);
		put_others(&sessions, &out);
		put_processes(&processes, &out);
	}
	sessions_done(&sessions);
	processes_done(&processes);
	return out_finish(&out);
}

int cmd_list(int argc, char **argv)
{
	struct request request = {0};
	struct args args = ARGS_OF("list", argc, argv, options);
	if (!parse(&args, &request))
		return USAGE;
	if (request.help) {
		print_help();
		return 0;
	}
	return print_list(&request);
}

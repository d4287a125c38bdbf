/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark run PROGRAM: record it, and say at the end what was recorded. */
#include <stdio.h>
#include <unistd.h>

#include "cli/agent_path.h"
#include "cli/background.h"
#include "cli/commands.h"
#include "cli/run_lines.h"
#include "cli/run_options.h"

enum { USAGE = 2, FAILED = 125 };

struct running {
	struct run_options request;
	struct background background;
};

static int complain(struct running *running, const struct tm_error *err, int status)
{
	fprintf(running->background.front, "tidemark run: %s\n", err->text);
	background_leave(&running->background, status);
	return status;
}

/* For what the program is. */
static int refuse(struct running *running, const struct tm_error *err)
{
	fprintf(running->background.front, "tidemark run: %s; --or-run runs it unrecorded\n",
		err->text);
	background_leave(&running->background, FAILED);
	return FAILED;
}

/* It goes on without us, or nearly so: this is said with --quiet, too. */
static void on_unrecorded(void *ctx, const struct tm_error *why)
{
	struct running *running = ctx;
	fprintf(running->background.front, "tidemark: warning: the program runs unrecorded: %s\n",
		why->text);
	background_leave(&running->background, 0);
}

static void on_start(void *ctx, const char *path)
{
	struct running *running = ctx;
	struct record_options *request = &running->request.record;
	if (!request->quiet)
		run_lines_begin(running->background.front, path);
	run_servers_start(&request->servers, path, request->quiet, running->background.front);
}

static void on_running(void *ctx, pid_t pid)
{
	struct running *running = ctx;
	if (running->request.record.daemon && !running->request.record.quiet)
		fprintf(running->background.front,
			"tidemark: process %d runs in the background, recorded by tidemark %d; "
			"'tidemark ctl %d status' says how it goes\n",
			(int)pid, (int)getpid(), (int)pid);
	background_leave(&running->background, 0);
}

static int record(struct running *running)
{
	struct record_options *request = &running->request.record;
	struct collector_result result;
	struct tm_error err = {0};
	request->run.started = on_start;
	request->run.running = on_running;
	request->run.tell_unnamed = !request->quiet;
	request->run.naming = request->quiet || !isatty(STDERR_FILENO) ? NULL : run_lines_naming;
	int error = collector_run(&request->run, &result, &err);
	if (error && result.unrecordable)
		return refuse(running, &err);
	if (error)
		return complain(running, &err, result.exit_status);
	int wait_status = result.wait_status;
	run_lines_end(&result, request->quiet);
	collector_result_done(&result);
	run_servers_wait(&request->servers);
	collector_exit_like(wait_status);
}

int cmd_run(int argc, char **argv)
{
	char agent_path[PATH_MAX];
	struct running running = {.background.front = stderr};
	struct run_options *request = &running.request;
	struct tm_error err = {0}, no_agent = {0};
	if (!run_options_from_environment(request, "run") ||
	    !run_options_parse(request, argc, argv))
		return USAGE;
	if (request->attaches)
		return cmd_attach(argc, argv);
	if (request->record.help) {
		run_options_help();
		return 0;
	}
	request->record.run.agent_path = agent_path;
	request->record.run.no_agent = agent_path_find(agent_path, &no_agent) ? NULL : &no_agent;
	request->record.run.unrecorded = on_unrecorded;
	request->record.run.ctx = &running;
	if (request->dormant)
		return complain(&running, &err, collector_sleep(&request->record.run, &err));
	if (request->record.daemon &&
	    background_enter(&running.background, request->record.log, &err))
		return complain(&running, &err, FAILED);
	return record(&running);
}

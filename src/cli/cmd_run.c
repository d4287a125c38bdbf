/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark run PROGRAM: record it, and say at the end what was recorded. */
#include <stdio.h>
#include <unistd.h>

#include "cli/agent_path.h"
#include "cli/commands.h"
#include "cli/run_lines.h"
#include "cli/run_options.h"

enum { USAGE = 2, FAILED = 125 };

static int complain(const struct tm_error *err, int status)
{
	fprintf(stderr, "tidemark run: %s\n", err->text);
	return status;
}

static void on_start(void *ctx, const char *path)
{
	struct run_options *request = ctx;
	if (!request->quiet)
		run_lines_begin(NULL, path);
	if (request->serve)
		run_serve_start(&request->page, path);
	if (request->metrics.metrics_only)
		run_serve_start(&request->metrics, path);
}

int cmd_run(int argc, char **argv)
{
	char agent_path[PATH_MAX];
	struct run_options request = {0};
	struct collector_result result;
	struct tm_error err = {0};
	if (!run_options_from_environment(&request, "run") ||
	    !run_options_parse(&request, argc, argv))
		return USAGE;
	if (request.help) {
		run_options_help();
		return 0;
	}
	if (!agent_path_find(agent_path, &err))
		return complain(&err, FAILED);
	request.run.agent_path = agent_path;
	if (request.dormant)
		return complain(&err, collector_sleep(&request.run, &err));
	request.run.started = on_start;
	request.run.ctx = &request;
	request.page.quiet = request.quiet;
	request.run.naming = request.quiet || !isatty(STDERR_FILENO) ? NULL : run_lines_naming;
	int error = collector_run(&request.run, &result, &err);
	if (error)
		return complain(&err, result.exit_status);
	int wait_status = result.wait_status;
	run_lines_end(&result, request.quiet);
	collector_result_done(&result);
	run_serve_wait(&request.metrics);
	run_serve_wait(&request.page);
	collector_exit_like(wait_status);
}

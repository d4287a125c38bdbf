/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark attach PID|NAME: go into a running process, record, and leave it as it was. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/units.h"
#include "cli/agent_path.h"
#include "cli/args.h"
#include "cli/attach_agent.h"
#include "cli/attach_name.h"
#include "cli/background.h"
#include "cli/commands.h"
#include "cli/record_options.h"
#include "cli/run_lines.h"
#include "cli/variables.h"
#include "collector/collector.h"
#include "inject/inject.h"

enum {
	OPT_PID = 1,
	OPT_DRY_RUN,
};

static const struct args_option options[] = {
	{OPT_PID, 'p', "pid", "PID", "the process, as heaptrack names it"},
	{RECORD_OUTPUT, 'o', "output", "FILE",
	 "where the trace goes: a file, or a folder; %p pid, %n program, %h host, %t time"},
	{RECORD_FORCE, 'f', "force", NULL, "overwrite FILE if it exists (else a number is added)"},
	{RECORD_QUIET, 'q', "quiet", NULL, "say nothing unless something is wrong"},
	{RECORD_TIME_LIMIT, 't', "time-limit", "TIME", "leave after 30s, 5m, 2h"},
	{RECORD_MAX_FILE_SIZE, 's', "max-file-size", "SIZE",
	 "store no more events when the file has 500M, 2G; figures go on, on top"},
	RECORD_OPTIONS,
	{RECORD_SERVE, 0, "serve", NULL,
	 "show the page of the recording while it runs, and after, until Ctrl-C"},
	{RECORD_LISTEN, 0, "listen", "ADDRESS:PORT", "where the page listens (see 'help serve')"},
	{RECORD_METRICS, 0, "metrics", "ADDRESS:PORT",
	 "figures for Prometheus at http://ADDRESS:PORT/metrics meanwhile"},
	{RECORD_PUSH, 0, "push", "URL", "send a profile (pprof) to URL again and again meanwhile"},
	{RECORD_PUSH_INTERVAL, 0, "push-interval", "TIME", "how often; 60s if not given"},
	{RECORD_DAEMON, 0, "daemon", NULL, "go on in the background once it is recorded"},
	{RECORD_LOG, 0, "log", "FILE", "with --daemon: what tidemark prints"},
	{RECORD_HOOK, 0, "hook", "FUNCTIONS",
	 "also record an allocator of the program's own (see 'help run'); may be repeated"},
	{OPT_DRY_RUN, 'n', "dry-run", NULL, "say what would be done, and do nothing"},
	{RECORD_HELP, 'h', "help", NULL, "print this help"},
};

enum { OPTION_COUNT = sizeof options / sizeof options[0], USAGE = 2, FAILED = 1 };

struct request {
	struct record_options record;
	struct background background;
	const char *whom;
	const struct inject *inject;
	bool dry_run;
};

static void print_help(void)
{
	puts("Usage: tidemark attach [OPTIONS] PID|NAME\n"
	     "       tidemark -p PID [OPTIONS]\n"
	     "\n"
	     "Goes into a running process and records every allocation from now on, until\n"
	     "Ctrl-C, 'tidemark detach', the time limit, or the end of the process; then\n"
	     "leaves it as it was. Its threads stand still for some tenths of a millisecond,\n"
	     "twice. Blocks that are older are not known; what is still live at the end was\n"
	     "allocated since.\n"
	     "\n"
	     "Each option has a variable: --time-limit is TIDEMARK_TIME_LIMIT. An option that is\n"
	     "only there or not takes 1 or 0.\n"
	     "\n"
	     "Options:");
	args_print_options(options, OPTION_COUNT);
}

static bool take_option(struct request *request, const struct args *args, int id, const char *value)
{
	switch (id) {
	case ARGS_WORD:
		if (request->whom) {
			fprintf(stderr, "tidemark attach: one process at a time: '%s' or '%s'?\n",
				request->whom, value);
			return false;
		}
		request->whom = value;
		return true;
	case OPT_PID:
		request->whom = value;
		return true;
	case OPT_DRY_RUN:
		request->dry_run = true;
		return true;
	default:
		return record_options_take(&request->record, args, id, value);
	}
}

static bool take_variable(void *ctx, const struct args *args, int id, const char *value)
{
	return take_option(ctx, args, id, value);
}

static bool parse(struct request *request, int argc, char **argv)
{
	struct args args = ARGS_OF("attach", argc, argv, options);
	const char *value = NULL;
	int id;
	if (!variables_read(&args, take_variable, request))
		return false;
	while ((id = args_next(&args, &value)) != ARGS_END)
		if (id == ARGS_ERROR || !take_option(request, &args, id, value))
			return false;
	if (!request->record.help && !request->whom) {
		fputs("tidemark attach: no process was named. Type 'tidemark help attach'.\n",
		      stderr);
		return false;
	}
	return request->record.help || record_options_check(&request->record, "attach");
}

/* ---- what it says ---- */

static void say(FILE *to, struct text *text)
{
	fwrite(text_string(text), 1, text->length, to);
	fflush(to);
	text_done(text);
}

static int fail(struct request *request, const struct tm_error *err)
{
	fprintf(request->background.front, "tidemark attach: %s\n", err->text);
	background_leave(&request->background, FAILED);
	return FAILED;
}

/* It is recorded: the page, how it ends, and from here on in the background. */
static void go_on(struct request *request, const char *path, const char *how_it_ends)
{
	FILE *front = request->background.front;
	if (!request->record.quiet)
		run_lines_begin(front, path);
	run_servers_start(&request->record.servers, path, request->record.quiet, front);
	if (request->record.daemon && !request->record.quiet)
		fprintf(front,
			"tidemark: recorded in the background by tidemark %d; 'tidemark detach %d' "
			"ends it\n",
			(int)getpid(), (int)request->record.run.pid);
	else if (!request->record.servers.page.wanted && !request->record.quiet)
		fputs(how_it_ends, front);
	background_leave(&request->background, 0);
}

static void on_start(void *ctx, const char *path)
{
	struct request *request = ctx;
	const struct inject_facts *facts = inject_facts(request->inject);
	struct text text = {0};
	if (!request->record.quiet) {
		text_print(&text,
			   "tidemark: attached to process %d; its %zu thread%s stood still for "
			   "%s\n",
			   (int)facts->pid, facts->threads, facts->threads == 1 ? "" : "s",
			   units_duration(facts->enter_pause_ns).text);
		if (*inject_unhooked(request->inject))
			text_print(&text, "tidemark: note: %s\n", inject_unhooked(request->inject));
		say(request->background.front, &text);
	}
	go_on(request, path, "tidemark: Ctrl-C leaves the process, which goes on\n");
}

/* Per thread, as measured: a stop, its registers, its stack, letting it go. */
static uint64_t expected_pause_ns(const struct inject_facts *facts)
{
	const uint64_t base_ns = 100 * 1000, each_ns = 16 * 1000;
	return base_ns + facts->threads * each_ns;
}

static int describe(const struct inject *inject)
{
	const struct inject_facts *facts = inject_facts(inject);
	struct text text = {0};
	text_print(&text, "Process %d has %zu thread%s and %zu programs and libraries.\n",
		   (int)facts->pid, facts->threads, facts->threads == 1 ? "" : "s", facts->objects);
	text_print(&text, "%zu functions would be patched:\n", facts->functions);
	inject_describe(inject, &text);
	text_print(&text,
		   "All threads would stand still for about %s when attaching, and again when "
		   "leaving%s.\n",
		   units_duration(expected_pause_ns(facts)).text,
		   facts->may_hurry ? ""
				    : "; much longer if they are busy, since tidemark may not run "
				      "ahead of them (CAP_SYS_NICE)");
	if (facts->seccomp)
		text_put(&text, "Its seccomp filter would be suspended for that moment.\n");
	if (facts->present)
		text_put(&text, "The agent of an earlier session is there and would be used "
				"again.\n");
	if (facts->orphan)
		text_put(&text, "A session whose tidemark was killed would be cleared away "
				"first.\n");
	text_put(&text, "Nothing was done.\n");
	fputs(text_string(&text), stdout);
	text_done(&text);
	return 0;
}

/* ---- an agent that is there already, and sleeps ---- */

static void on_woken(void *ctx, const char *path)
{
	struct request *request = ctx;
	if (!request->record.quiet)
		fprintf(request->background.front,
			"tidemark: process %d is recorded from its next allocation on\n",
			(int)request->record.run.pid);
	go_on(request, path, "tidemark: Ctrl-C ends the recording; the process goes on\n");
}

static int wake(struct request *request)
{
	struct collector_result result;
	struct tm_error err = {0};
	if (request->dry_run) {
		printf("Process %d has an agent that sleeps: it would be woken. Nothing would "
		       "stand "
		       "still. Nothing was done.\n",
		       (int)request->record.run.pid);
		return 0;
	}
	if (request->record.daemon &&
	    background_enter(&request->background, request->record.log, &err))
		return fail(request, &err);
	request->record.run.started = on_woken;
	request->record.run.ctx = request;
	request->record.run.tell_unnamed = !request->record.quiet;
	request->record.run.naming =
		request->record.quiet || !isatty(STDERR_FILENO) ? NULL : run_lines_naming;
	if (collector_wake(&request->record.run, &result, &err))
		return fail(request, &err);
	run_lines_end(&result, request->record.quiet);
	collector_result_done(&result);
	run_servers_wait(&request->record.servers);
	return 0;
}

static int record(struct request *request, struct inject *inject)
{
	struct collector_result result;
	struct tm_error err = {0};
	request->inject = inject;
	request->record.run.started = on_start;
	request->record.run.ctx = request;
	request->record.run.tell_unnamed = !request->record.quiet;
	request->record.run.naming =
		request->record.quiet || !isatty(STDERR_FILENO) ? NULL : run_lines_naming;
	int error = collector_attach(&request->record.run, inject, &result, &err);
	const struct inject_facts *facts = inject_facts(inject);
	if (error)
		return fail(request, &err);
	if (!request->record.quiet && facts->leave_pause_ns) {
		struct text text = {0};
		text_print(&text,
			   "tidemark: left process %d as it was; its threads stood still for %s\n",
			   (int)facts->pid, units_duration(facts->leave_pause_ns).text);
		say(stderr, &text);
	}
	run_lines_end(&result, request->record.quiet);
	collector_result_done(&result);
	run_servers_wait(&request->record.servers);
	return 0;
}

int cmd_attach(int argc, char **argv)
{
	char agent_path[PATH_MAX];
	struct request request = {.background.front = stderr};
	struct inject *inject = NULL;
	struct tm_error err = {0};
	pid_t pid = 0;
	if (!parse(&request, argc, argv))
		return USAGE;
	if (request.record.help) {
		print_help();
		return 0;
	}
	if (!attach_name_find("attach", request.whom, &pid))
		return FAILED;
	request.record.run.pid = pid;
	switch (attach_agent_of(pid)) {
	case ATTACH_AGENT_RECORDS:
		fprintf(stderr,
			"tidemark attach: process %d is being recorded already; 'tidemark list' "
			"shows by whom\n",
			(int)pid);
		return FAILED;
	case ATTACH_AGENT_SLEEPS:
		return wake(&request);
	case ATTACH_AGENT_NONE:
		break;
	}
	struct inject_options how = {
		.pid = pid, .agent_path = agent_path, .hooks = &request.record.hooks};
	/* Before it is opened: whoever goes in must be the one who stays. */
	if (request.record.daemon && !request.dry_run &&
	    background_enter(&request.background, request.record.log, &err))
		return fail(&request, &err);
	if (!agent_path_find(agent_path, &err) || inject_open(&how, &inject, &err))
		return fail(&request, &err);
	request.record.run.agent_path = agent_path;
	int status = request.dry_run ? describe(inject) : record(&request, inject);
	inject_close(inject);
	plan_hooks_done(&request.record.hooks);
	return status;
}

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
#include "cli/bounds.h"
#include "cli/commands.h"
#include "cli/run_lines.h"
#include "cli/run_serve.h"
#include "cli/sampling.h"
#include "collector/collector.h"
#include "inject/inject.h"
#include "inject/plan_hook.h"
#include "wire/wire.h"

enum {
	OPT_PID = 1,
	OPT_OUTPUT,
	OPT_FORCE,
	OPT_QUIET,
	OPT_TIME_LIMIT,
	OPT_MAX_FILE_SIZE,
	OPT_DEPTH,
	OPT_FREE_STACKS,
	OPT_NO_ADDRESSES,
	OPT_NO_SYMBOLS,
	OPT_EMBED_SOURCE,
	OPT_SERVE,
	OPT_LISTEN,
	OPT_METRICS,
	OPT_PUSH,
	OPT_PUSH_INTERVAL,
	OPT_DAEMON,
	OPT_LOG,
	OPT_HOOK,
	OPT_DRY_RUN,
	OPT_SAMPLE,
	OPT_MAX_OVERHEAD,
	OPT_ON_OVERLOAD,
	OPT_OVERLOAD_SHARE,
	OPT_SEED,
	OPT_HELP,
};

static const struct args_option options[] = {
	{OPT_PID, 'p', "pid", "PID", "the process, as heaptrack names it"},
	{OPT_OUTPUT, 'o', "output", "FILE",
	 "where the trace goes: a file, or a folder; %p pid, %n program, %h host, %t time"},
	{OPT_FORCE, 'f', "force", NULL, "overwrite FILE if it exists (else a number is added)"},
	{OPT_QUIET, 'q', "quiet", NULL, "say nothing unless something is wrong"},
	{OPT_TIME_LIMIT, 't', "time-limit", "TIME", "leave after 30s, 5m, 2h"},
	{OPT_MAX_FILE_SIZE, 's', "max-file-size", "SIZE",
	 "store no more events when the file has 500M, 2G; figures go on"},
	BOUNDS_OPTIONS,
	{OPT_SAMPLE, 0, "sample", "[BYTES]", SAMPLING_HELP},
	{OPT_MAX_OVERHEAD, 0, "max-overhead", "SHARE", SAMPLING_OVERHEAD_HELP},
	{OPT_ON_OVERLOAD, 0, "on-overload", "WHAT", SAMPLING_OVERLOAD_HELP},
	{OPT_OVERLOAD_SHARE, 0, "overload-share", "SHARE", SAMPLING_SHARE_HELP},
	{OPT_SEED, 0, "seed", "N", NULL},
	{OPT_DEPTH, 0, "depth", "N", "frames kept of each stack (default and most: 1024)"},
	{OPT_FREE_STACKS, 0, "free-stacks", NULL, "also record where blocks are freed"},
	{OPT_NO_ADDRESSES, 0, "no-addresses", NULL, "leave the blocks' addresses out of the file"},
	{OPT_NO_SYMBOLS, 0, "no-symbols", NULL, "leave the functions' names out of the file"},
	{OPT_EMBED_SOURCE, 0, "embed-source", NULL,
	 "put the text of the source lines that allocate into the file, too"},
	{OPT_SERVE, 0, "serve", NULL,
	 "show the page of the recording while it runs, and after, until Ctrl-C"},
	{OPT_LISTEN, 0, "listen", "ADDRESS:PORT", "where the page listens (see 'help serve')"},
	{OPT_METRICS, 0, "metrics", "ADDRESS:PORT",
	 "figures for Prometheus at http://ADDRESS:PORT/metrics meanwhile"},
	{OPT_PUSH, 0, "push", "URL", "send a profile (pprof) to URL again and again meanwhile"},
	{OPT_PUSH_INTERVAL, 0, "push-interval", "TIME", "how often; 60s if not given"},
	{OPT_DAEMON, 0, "daemon", NULL, "go on in the background once it is recorded"},
	{OPT_LOG, 0, "log", "FILE", "with --daemon: what tidemark prints"},
	{OPT_HOOK, 0, "hook", "FUNCTIONS",
	 "also record an allocator of the program's own (see 'help run'); may be repeated"},
	{OPT_DRY_RUN, 'n', "dry-run", NULL, "say what would be done, and do nothing"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};

enum { OPTION_COUNT = sizeof options / sizeof options[0], USAGE = 2, FAILED = 1 };

struct request {
	struct collector_options run;
	struct run_servers servers;
	struct background background;
	const char *whom, *log;
	const struct inject *inject;
	struct plan_hooks hooks;
	bool quiet, daemon, help, dry_run;
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
	     "Options:");
	args_print_options(options, OPTION_COUNT);
}

static bool complain(const struct tm_error *err)
{
	fprintf(stderr, "tidemark attach: %s\n", err->text);
	return false;
}

static bool take_value(struct request *request, struct args *args, int id, const char *value)
{
	struct collector_options *run = &request->run;
	struct tm_error err = {0};
	uint64_t number = 0;
	switch (id) {
	case OPT_PID:
		request->whom = value;
		return true;
	case OPT_OUTPUT:
		run->output = value;
		return true;
	case OPT_TIME_LIMIT:
		return units_parse_duration(value, &run->time_limit_ns, &err) ? complain(&err)
									      : true;
	case OPT_MAX_FILE_SIZE:
		return units_parse_bytes(value, &run->max_file_bytes, &err) ? complain(&err) : true;
	case OPT_DEPTH:
		if (!args_number(args, "depth", value, WIRE_DEPTH_MAX, &number))
			return false;
		run->depth = (uint32_t)number;
		return true;
	case OPT_SAMPLE:
		return sampling_interval(args, value, &run->sample_log2);
	case OPT_MAX_OVERHEAD:
		return sampling_overhead(args, value, run);
	case OPT_ON_OVERLOAD:
		return sampling_overload(args, value, run);
	case OPT_OVERLOAD_SHARE:
		return sampling_share(args, "overload-share", value, &run->overload_share);
	case OPT_SEED:
		return args_number(args, "seed", value, UINT64_MAX, &run->sample_seed);
	case OPT_HOOK:
		return plan_hooks_add(&request->hooks, value, &err) ? complain(&err) : true;
	case OPT_LISTEN:
		request->servers.page.wanted = true;
		request->servers.page.listen = value;
		return true;
	case OPT_METRICS:
		run_servers_metrics(&request->servers, value);
		return true;
	case OPT_PUSH:
		run_servers_push(&request->servers, value);
		return true;
	case OPT_PUSH_INTERVAL:
		request->servers.metrics.push_interval = value;
		return true;
	case OPT_LOG:
		request->log = value;
		return true;
	default:
		return bounds_take(&run->bounds, args, id, value);
	}
}

static bool take_option(struct request *request, struct args *args, int id, const char *value)
{
	struct collector_options *run = &request->run;
	switch (id) {
	case ARGS_WORD:
		if (request->whom) {
			fprintf(stderr, "tidemark attach: one process at a time: '%s' or '%s'?\n",
				request->whom, value);
			return false;
		}
		request->whom = value;
		break;
	case OPT_FORCE:
		run->force = true;
		break;
	case OPT_QUIET:
		request->quiet = true;
		break;
	case OPT_FREE_STACKS:
		run->free_stacks = true;
		break;
	case OPT_NO_ADDRESSES:
		run->no_addresses = true;
		break;
	case OPT_NO_SYMBOLS:
		run->no_symbols = true;
		break;
	case OPT_EMBED_SOURCE:
		run->embed_source = true;
		break;
	case OPT_SERVE:
		request->servers.page.wanted = true;
		break;
	case OPT_DAEMON:
		request->daemon = true;
		break;
	case OPT_DRY_RUN:
		request->dry_run = true;
		break;
	case OPT_HELP:
		request->help = true;
		break;
	default:
		return take_value(request, args, id, value);
	}
	return true;
}

static bool parse(struct request *request, int argc, char **argv)
{
	struct args args = ARGS_OF("attach", argc, argv, options);
	const char *value = NULL;
	int id;
	while ((id = args_next(&args, &value)) != ARGS_END)
		if (id == ARGS_ERROR || !take_option(request, &args, id, value))
			return false;
	if (!request->help && !request->whom) {
		fputs("tidemark attach: no process was named. Type 'tidemark help attach'.\n",
		      stderr);
		return false;
	}
	if (!request->help && request->log && !request->daemon) {
		fputs("tidemark attach: '--log' is for --daemon: else redirect the output.\n",
		      stderr);
		return false;
	}
	return request->help || (bounds_check(&request->run.bounds, "attach") &&
				 run_servers_check(&request->servers, "attach"));
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
	if (!request->quiet)
		run_lines_begin(front, path);
	run_servers_start(&request->servers, path, request->quiet, front);
	if (request->daemon && !request->quiet)
		fprintf(front,
			"tidemark: recorded in the background by tidemark %d; 'tidemark detach %d' "
			"ends it\n",
			(int)getpid(), (int)request->run.pid);
	else if (!request->servers.page.wanted && !request->quiet)
		fputs(how_it_ends, front);
	background_leave(&request->background, 0);
}

static void on_start(void *ctx, const char *path)
{
	struct request *request = ctx;
	const struct inject_facts *facts = inject_facts(request->inject);
	struct text text = {0};
	if (!request->quiet) {
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
	if (!request->quiet)
		fprintf(request->background.front,
			"tidemark: process %d is recorded from its next allocation on\n",
			(int)request->run.pid);
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
		       (int)request->run.pid);
		return 0;
	}
	if (request->daemon && background_enter(&request->background, request->log, &err))
		return fail(request, &err);
	request->run.started = on_woken;
	request->run.ctx = request;
	request->run.naming = request->quiet || !isatty(STDERR_FILENO) ? NULL : run_lines_naming;
	if (collector_wake(&request->run, &result, &err))
		return fail(request, &err);
	run_lines_end(&result, request->quiet);
	collector_result_done(&result);
	run_servers_wait(&request->servers);
	return 0;
}

static int record(struct request *request, struct inject *inject)
{
	struct collector_result result;
	struct tm_error err = {0};
	request->inject = inject;
	request->run.started = on_start;
	request->run.ctx = request;
	request->run.naming = request->quiet || !isatty(STDERR_FILENO) ? NULL : run_lines_naming;
	int error = collector_attach(&request->run, inject, &result, &err);
	const struct inject_facts *facts = inject_facts(inject);
	if (error)
		return fail(request, &err);
	if (!request->quiet && facts->leave_pause_ns) {
		struct text text = {0};
		text_print(&text,
			   "tidemark: left process %d as it was; its threads stood still for %s\n",
			   (int)facts->pid, units_duration(facts->leave_pause_ns).text);
		say(stderr, &text);
	}
	run_lines_end(&result, request->quiet);
	collector_result_done(&result);
	run_servers_wait(&request->servers);
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
	if (request.help) {
		print_help();
		return 0;
	}
	if (!attach_name_find("attach", request.whom, &pid))
		return FAILED;
	request.run.pid = pid;
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
	struct inject_options how = {.pid = pid, .agent_path = agent_path, .hooks = &request.hooks};
	/* Before it is opened: whoever goes in must be the one who stays. */
	if (request.daemon && !request.dry_run &&
	    background_enter(&request.background, request.log, &err))
		return fail(&request, &err);
	if (!agent_path_find(agent_path, &err) || inject_open(&how, &inject, &err))
		return fail(&request, &err);
	request.run.agent_path = agent_path;
	int status = request.dry_run ? describe(inject) : record(&request, inject);
	inject_close(inject);
	plan_hooks_done(&request.hooks);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_options.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/variables.h"

enum {
	OPT_OR_RUN = 1,
	OPT_CHILDREN,
	OPT_DELAY,
	OPT_ON_USR1,
	OPT_DORMANT,
	OPT_PID,
};

static const struct args_option options[] = {
	{RECORD_OUTPUT, 'o', "output", "FILE",
	 "where the trace goes: a file, or a folder; %p pid, %n program, %h host, %t time, "
	 "%i number"},
	{RECORD_FORCE, 'f', "force", NULL, "overwrite FILE if it exists (else a number is added)"},
	{OPT_OR_RUN, 0, "or-run", NULL, "if it cannot be recorded, run it all the same"},
	{RECORD_QUIET, 'q', "quiet", NULL, "say nothing unless something is wrong"},
	{OPT_CHILDREN, 'c', "children", NULL, "also record every process it starts, each apart"},
	{RECORD_TIME_LIMIT, 't', "time-limit", "TIME", "stop recording after 30s, 5m, 2h"},
	{OPT_DELAY, 'd', "delay", "TIME", "begin recording only after that time"},
	{RECORD_MAX_FILE_SIZE, 's', "max-file-size", "SIZE",
	 "store no more events when the file has 500M, 2G; figures go on, on top"},
	RECORD_OPTIONS,
	{RECORD_HOOK, 0, "hook", "FUNCTIONS",
	 "also record an allocator of your own: 'alloc=get(size=1) free=put(ptr=0)'"},
	{OPT_ON_USR1, 0, "on-usr1", "WHAT",
	 "SIGUSR1 to the program: toggle (off, and on into a new file), rotate, none"},
	{OPT_DORMANT, 0, "dormant", NULL,
	 "record nothing, and no tool stays: 'tidemark attach' wakes it when it is wanted"},
	{RECORD_SERVE, 0, "serve", NULL,
	 "show the page of the recording while it runs, and after, until Ctrl-C"},
	{RECORD_LISTEN, 0, "listen", "ADDRESS:PORT", "where the page listens (see 'help serve')"},
	{RECORD_METRICS, 0, "metrics", "ADDRESS:PORT",
	 "figures for Prometheus at http://ADDRESS:PORT/metrics while the program runs"},
	{RECORD_PUSH, 0, "push", "URL",
	 "send a profile (pprof) to URL again and again while the program runs"},
	{RECORD_PUSH_INTERVAL, 0, "push-interval", "TIME", "how often; 60s if not given"},
	{RECORD_DAEMON, 0, "daemon", NULL,
	 "go on in the background, without a terminal, once the program runs"},
	{RECORD_LOG, 0, "log", "FILE",
	 "with --daemon: what the program and tidemark print, else lost unless it goes to a "
	 "file"},
	{OPT_PID, 'p', "pid", "PID", NULL}, /* heaptrack's way to attach */
	{RECORD_HELP, 'h', "help", NULL, "print this help"},
};

enum { OPTION_COUNT = sizeof options / sizeof options[0] };

void run_options_help(void)
{
	puts("Usage: tidemark [run] [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
	     "       tidemark [OPTIONS] -p PID        (attach: see 'help attach')\n"
	     "\n"
	     "Runs the program and records every allocation with its time, thread, size and\n"
	     "stack into a trace (tidemark.<program>.<pid>.tide). Exit status, streams, signals\n"
	     "and terminal are the program's, as without tidemark. When it is a shell script,\n"
	     "or started by env, make, npm and the like, the program that these start is\n"
	     "recorded. Statically linked programs are entered by ptrace.\n"
	     "\n"
	     "Each option has a variable: --time-limit is TIDEMARK_TIME_LIMIT. An option that is\n"
	     "only there or not takes 1 or 0.\n"
	     "\n"
	     "Options:");
	args_print_options(options, OPTION_COUNT);
}

static bool complain(const struct tm_error *err)
{
	fprintf(stderr, "tidemark run: %s\n", err->text);
	return false;
}

static bool take_on_usr1(struct collector_options *run, const char *value)
{
	static const char *const names[] = {[COLLECTOR_USR1_NONE] = "none",
					    [COLLECTOR_USR1_TOGGLE] = "toggle",
					    [COLLECTOR_USR1_ROTATE] = "rotate"};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (!strcmp(value, names[i])) {
			run->on_usr1 = (enum collector_usr1)i;
			return true;
		}
	fprintf(stderr, "tidemark run: 'on-usr1' is toggle, rotate or none, not '%s'.\n", value);
	return false;
}

static bool take_delay(struct collector_options *run, const char *value)
{
	struct tm_error err = {0};
	return !units_parse_duration(value, &run->delay_ns, &err) || complain(&err);
}

static bool take_option(struct run_options *request, const struct args *args, int id,
			const char *value)
{
	struct collector_options *run = &request->record.run;
	switch (id) {
	case OPT_OR_RUN:
		run->or_run = true;
		return true;
	case OPT_CHILDREN:
		run->children = true;
		return true;
	case OPT_DELAY:
		return take_delay(run, value);
	case OPT_ON_USR1:
		return take_on_usr1(run, value);
	case OPT_DORMANT:
		request->dormant = true;
		return true;
	case RECORD_HOOK:
		run->hooks = &request->record.hooks;
		break;
	}
	return record_options_take(&request->record, args, id, value);
}

static bool take_variable(void *ctx, const struct args *args, int id, const char *value)
{
	return take_option(ctx, args, id, value);
}

bool run_options_from_environment(struct run_options *request, const char *command)
{
	const struct args args = {
		.command = command, .options = options, .option_count = OPTION_COUNT};
	return variables_read(&args, take_variable, request);
}

static bool is_consistent(const struct run_options *request)
{
	if (request->dormant && request->record.daemon) {
		fputs("tidemark run: with '--dormant' no tool stays that could go into the "
		      "background.\n",
		      stderr);
		return false;
	}
	return record_options_check(&request->record, "run");
}

bool run_options_parse(struct run_options *request, int argc, char **argv)
{
	struct args args = {.command = "run",
			    .argc = argc,
			    .argv = argv,
			    .at = 1,
			    .options = options,
			    .option_count = OPTION_COUNT,
			    .stop_at_word = true};
	const char *value = NULL;
	int id;
	while ((id = args_next(&args, &value)) > ARGS_END) {
		request->attaches = id == OPT_PID;
		if (request->attaches)
			return true;
		if (!take_option(request, &args, id, value))
			return false;
	}
	if (id == ARGS_ERROR)
		return false;
	request->record.run.argv = argv + args.at;
	if (request->record.help)
		return true;
	if (!is_consistent(request))
		return false;
	if (args.at >= argc) {
		fputs("tidemark run: no program was named. Type 'tidemark help run'.\n", stderr);
		return false;
	}
	return true;
}

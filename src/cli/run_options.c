/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/units.h"
#include "cli/args.h"
#include "cli/bounds.h"
#include "cli/sampling.h"
#include "wire/wire.h"

enum {
	OPT_OUTPUT = 1,
	OPT_FORCE,
	OPT_OR_RUN,
	OPT_QUIET,
	OPT_CHILDREN,
	OPT_TIME_LIMIT,
	OPT_DELAY,
	OPT_MAX_FILE_SIZE,
	OPT_DEPTH,
	OPT_FREE_STACKS,
	OPT_NO_ADDRESSES,
	OPT_NO_SYMBOLS,
	OPT_EMBED_SOURCE,
	OPT_HOOK,
	OPT_ON_USR1,
	OPT_DORMANT,
	OPT_SERVE,
	OPT_LISTEN,
	OPT_METRICS,
	OPT_PUSH,
	OPT_PUSH_INTERVAL,
	OPT_DAEMON,
	OPT_LOG,
	OPT_SAMPLE,
	OPT_MAX_OVERHEAD,
	OPT_ON_OVERLOAD,
	OPT_OVERLOAD_SHARE,
	OPT_SEED,
	OPT_HELP,
};

static const struct args_option options[] = {
	{OPT_OUTPUT, 'o', "output", "FILE",
	 "where the trace goes: a file, or a folder; %p pid, %n program, %h host, %t time, "
	 "%i number"},
	{OPT_FORCE, 'f', "force", NULL, "overwrite FILE if it exists (else a number is added)"},
	{OPT_OR_RUN, 0, "or-run", NULL, "if it cannot be recorded, run it all the same"},
	{OPT_QUIET, 'q', "quiet", NULL, "say nothing unless something is wrong"},
	{OPT_CHILDREN, 'c', "children", NULL, "also record every process it starts, each apart"},
	{OPT_TIME_LIMIT, 't', "time-limit", "TIME", "stop recording after 30s, 5m, 2h"},
	{OPT_DELAY, 'd', "delay", "TIME", "begin recording only after that time"},
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
	{OPT_HOOK, 0, "hook", "FUNCTIONS",
	 "also record an allocator of your own: 'alloc=get(size=1) free=put(ptr=0)'"},
	{OPT_ON_USR1, 0, "on-usr1", "WHAT",
	 "SIGUSR1 to the program: toggle (off, and on into a new file), rotate, none"},
	{OPT_DORMANT, 0, "dormant", NULL,
	 "record nothing, and no tool stays: 'tidemark attach' wakes it when it is wanted"},
	{OPT_SERVE, 0, "serve", NULL,
	 "show the page of the recording while it runs, and after, until Ctrl-C"},
	{OPT_LISTEN, 0, "listen", "ADDRESS:PORT", "where the page listens (see 'help serve')"},
	{OPT_METRICS, 0, "metrics", "ADDRESS:PORT",
	 "figures for Prometheus at http://ADDRESS:PORT/metrics while the program runs"},
	{OPT_PUSH, 0, "push", "URL",
	 "send a profile (pprof) to URL again and again while the program runs"},
	{OPT_PUSH_INTERVAL, 0, "push-interval", "TIME", "how often; 60s if not given"},
	{OPT_DAEMON, 0, "daemon", NULL,
	 "go on in the background, without a terminal, once the program runs"},
	{OPT_LOG, 0, "log", "FILE",
	 "with --daemon: what the program and tidemark print, else lost unless it goes to a "
	 "file"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};

enum { OPTION_COUNT = sizeof options / sizeof options[0] };

void run_options_help(void)
{
	puts("Usage: tidemark [run] [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
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

static bool take_value(struct run_options *request, struct args *args, int id, const char *value)
{
	struct collector_options *run = &request->run;
	struct tm_error err = {0};
	uint64_t number = 0;
	switch (id) {
	case OPT_OUTPUT:
		run->output = value;
		return true;
	case OPT_TIME_LIMIT:
		return units_parse_duration(value, &run->time_limit_ns, &err) ? complain(&err)
									      : true;
	case OPT_DELAY:
		return units_parse_duration(value, &run->delay_ns, &err) ? complain(&err) : true;
	case OPT_MAX_FILE_SIZE:
		return units_parse_bytes(value, &run->max_file_bytes, &err) ? complain(&err) : true;
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
	case OPT_HOOK:
		run->hooks = &request->hooks;
		return plan_hooks_add(&request->hooks, value, &err) ? complain(&err) : true;
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
	case OPT_ON_USR1:
		return take_on_usr1(run, value);
	case OPT_DEPTH:
		if (!args_number(args, "depth", value, WIRE_DEPTH_MAX, &number))
			return false;
		run->depth = (uint32_t)number;
		return true;
	default:
		return bounds_take(&run->bounds, args, id, value);
	}
}

static bool take_option(struct run_options *request, struct args *args, int id, const char *value)
{
	struct collector_options *run = &request->run;
	switch (id) {
	case OPT_FORCE:
		run->force = true;
		break;
	case OPT_OR_RUN:
		run->or_run = true;
		break;
	case OPT_QUIET:
		request->quiet = true;
		break;
	case OPT_CHILDREN:
		run->children = true;
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
	case OPT_DORMANT:
		request->dormant = true;
		break;
	case OPT_SERVE:
		request->servers.page.wanted = true;
		break;
	case OPT_DAEMON:
		request->daemon = true;
		break;
	case OPT_HELP:
		request->help = true;
		break;
	default:
		return take_value(request, args, id, value);
	}
	return true;
}

/* ---- the environment ---- */

enum { VARIABLE_BYTES = 64 };

/* --time-limit: TIDEMARK_TIME_LIMIT */
static void name_variable(const char *option, char ret[VARIABLE_BYTES])
{
	int used = snprintf(ret, VARIABLE_BYTES, "TIDEMARK_");
	for (; *option && used < VARIABLE_BYTES - 1; option++)
		ret[used++] = *option == '-' ? '_' : (char)toupper((unsigned char)*option);
	ret[used] = '\0';
}

static bool read_switch(const char *name, const char *text, bool *ret)
{
	static const char *const yes[] = {"1", "yes", "true", "on"};
	static const char *const no[] = {"0", "no", "false", "off", ""};
	for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
		if (!strcasecmp(text, yes[i])) {
			*ret = true;
			return true;
		}
	for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
		if (!strcasecmp(text, no[i]))
			return true;
	fprintf(stderr, "tidemark: %s is 1 or 0, not '%s'.\n", name, text);
	return false;
}

bool run_options_from_environment(struct run_options *request, const char *command)
{
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		struct args args = {.command = command};
		char name[VARIABLE_BYTES];
		bool is_on = false;
		if (options[i].id == OPT_HELP)
			continue;
		name_variable(options[i].name, name);
		const char *value = getenv(name);
		if (!value || (options[i].value && !*value))
			continue;
		if (!options[i].value && !read_switch(name, value, &is_on))
			return false;
		if ((options[i].value || is_on) &&
		    !take_option(request, &args, options[i].id, value)) {
			fprintf(stderr, "tidemark: so says %s in the environment.\n", name);
			return false;
		}
	}
	return true;
}

bool run_options_check(const struct run_options *request)
{
	return bounds_check(&request->run.bounds, "run");
}

static bool is_consistent(const struct run_options *request)
{
	if (request->log && !request->daemon)
		fputs("tidemark run: '--log' is for --daemon: else redirect the output.\n", stderr);
	else if (request->dormant && request->daemon)
		fputs("tidemark run: with '--dormant' no tool stays that could go into the "
		      "background.\n",
		      stderr);
	else
		return run_servers_check(&request->servers, "run");
	return false;
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
	while ((id = args_next(&args, &value)) > ARGS_END)
		if (!take_option(request, &args, id, value))
			return false;
	if (id == ARGS_ERROR)
		return false;
	request->run.argv = argv + args.at;
	if (!request->help && !is_consistent(request))
		return false;
	if (!request->help && args.at >= argc) {
		fputs("tidemark run: no program was named. Type 'tidemark help run'.\n", stderr);
		return false;
	}
	return run_options_check(request);
}

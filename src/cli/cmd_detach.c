/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tidemark detach PID|NAME: ends the session of a process that was attached to.
 * Its tidemark is told to leave; where that was killed, what it left in the
 * process is undone from here.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cli/agent_path.h"
#include "cli/args.h"
#include "cli/attach_agent.h"
#include "cli/attach_name.h"
#include "cli/commands.h"
#include "inject/inject.h"

enum { OPT_QUIET = 1, OPT_HELP, USAGE = 2, FAILED = 1, STEP_NS = 2 * 1000 * 1000 };
#define PATIENCE_NS (30 * 1000000000ull)

static const struct args_option options[] = {
	{OPT_QUIET, 'q', "quiet", NULL, "say nothing unless something is wrong"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};

struct request {
	const char *whom;
	bool quiet, help;
};

static void print_help(void)
{
	puts("Usage: tidemark detach [OPTIONS] PID|NAME\n"
	     "\n"
	     "Ends the recording of a process that 'tidemark attach' went into: the trace is\n"
	     "completed and the process is left as it was. Where that tidemark was killed, and\n"
	     "its changes are still in the process, they are undone.\n"
	     "\n"
	     "Options:");
	args_print_options(options, sizeof options / sizeof options[0]);
}

static bool parse(struct request *request, int argc, char **argv)
{
	struct args args = ARGS_OF("detach", argc, argv, options);
	const char *value = NULL;
	int id;
	while ((id = args_next(&args, &value)) != ARGS_END) {
		if (id == ARGS_ERROR)
			return false;
		if (id == ARGS_WORD && request->whom) {
			fputs("tidemark detach: one process at a time.\n", stderr);
			return false;
		}
		if (id == ARGS_WORD)
			request->whom = value;
		request->quiet |= id == OPT_QUIET;
		request->help |= id == OPT_HELP;
	}
	if (!request->help && !request->whom) {
		fputs("tidemark detach: no process was named. Type 'tidemark help detach'.\n",
		      stderr);
		return false;
	}
	return true;
}

static struct inject *open_again(const struct inject_options *how, struct tm_error *err)
{
	struct inject *inject = NULL;
	return inject_open(how, &inject, err) ? NULL : inject;
}

/* Until its tidemark has left it, or the process is gone. */
static int tell(const struct inject_options *how, pid_t collector, struct tm_error *err)
{
	uint64_t end_ns = clock_steady_ns() + PATIENCE_NS;
	const struct timespec step = {.tv_nsec = STEP_NS};
	if (kill(collector, SIGTERM) && errno != ESRCH)
		return tm_fail(err, -errno,
			       "cannot tell the tidemark that records it (process %d): %s; use "
			       "sudo",
			       (int)collector, strerror(errno));
	while (clock_steady_ns() < end_ns) {
		struct tm_error ignored = {0};
		struct inject *inject = open_again(how, &ignored);
		bool over = !inject || inject_facts(inject)->collector != collector;
		inject_close(inject);
		if (over)
			return 0;
		nanosleep(&step, NULL);
	}
	return tm_fail(err, -ETIMEDOUT,
		       "the tidemark that records it (process %d) does not answer; kill -9 it and "
		       "detach again",
		       (int)collector);
}

static int detach(const struct inject_options *how, const char **ret_word, struct tm_error *err)
{
	struct inject *inject = NULL;
	int error = inject_open(how, &inject, err);
	if (error)
		return error;
	const struct inject_facts *facts = inject_facts(inject);
	pid_t collector = facts->collector;
	bool orphan = facts->orphan;
	if (!collector && !orphan)
		error = tm_fail(err, -ENOENT, "process %d is not attached to", (int)how->pid);
	else if (!collector)
		error = inject_leave(inject, err);
	inject_close(inject);
	*ret_word = orphan ? "undid what a killed tidemark had left in" : "left";
	return error || !collector ? error : tell(how, collector, err);
}

int cmd_detach(int argc, char **argv)
{
	char agent_path[PATH_MAX];
	struct request request = {0};
	struct tm_error err = {0};
	const char *word = "left";
	pid_t pid = 0;
	sigset_t child;
	if (!parse(&request, argc, argv))
		return USAGE;
	if (request.help) {
		print_help();
		return 0;
	}
	if (!attach_name_find("detach", request.whom, &pid))
		return FAILED;
	int error = attach_agent_detach(pid, &err);
	if (error != -ENOENT) {
		if (error)
			fprintf(stderr, "tidemark detach: %s\n", err.text);
		else if (!request.quiet)
			fprintf(stderr, "tidemark: the agent in process %d sleeps again\n",
				(int)pid);
		return error ? FAILED : 0;
	}
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	struct inject_options how = {.pid = pid, .agent_path = agent_path, .any_session = true};
	if (!agent_path_find(agent_path, &err) || detach(&how, &word, &err)) {
		fprintf(stderr, "tidemark detach: %s\n", err.text);
		return FAILED;
	}
	if (!request.quiet)
		fprintf(stderr, "tidemark: %s process %d\n", word, (int)pid);
	return 0;
}

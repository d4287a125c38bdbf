/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tool: finds the command in a table and hands over. A first word that is
 * no command is a program to run, so 'tidemark ls' means 'tidemark run ls'.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/version.h"
#include "cli/args.h"
#include "cli/commands.h"

static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);
static int cmd_analyze(int argc, char **argv);

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help; /* NULL = not listed */
};

static const struct command commands[] = {
	{"run", cmd_run, "run a program and record its heap (the word 'run' may be left out)"},
	{"attach", cmd_attach, "go into a running process and record its heap"},
	{"detach", cmd_detach, "end the recording of a process that was attached to"},
	{"list", cmd_list, "show what is being recorded, and what could be"},
	{"ctl", cmd_ctl, "speak to a recording: pause, resume, rotate, mark, status, stop"},
	{"report", cmd_report, "print what a trace says"},
	{"serve", cmd_serve, "show traces in the browser"},
	{"diff", cmd_diff, "show what changed between two recordings"},
	{"check", cmd_check, "hold a recording against budgets, for build servers"},
	{"info", cmd_info, "say what is in a trace file"},
	{"verify", cmd_verify, "check a trace file as a whole"},
	{"repair", cmd_repair, "make a sound trace of a damaged or unfinished one"},
	{"symbolize", cmd_symbolize, "put names of functions into a trace, or better ones"},
	{"trim", cmd_trim, "make a small trace of a part of one"},
	{"merge", cmd_merge, "make one trace of several: processes, pieces, runs"},
	{"anonymize", cmd_anonymize, "make a copy that tells a stranger no names"},
	{"sql", cmd_sql, "ask a trace questions in SQL"},
	{"export", cmd_export, "write a trace in the formats of other tools"},
	{"convert", cmd_convert, "make a trace of a file that another tool recorded"},
	{"help", cmd_help, "print help, also of one command: tidemark help report"},
	{"version", cmd_version, "print the version"},
	/* as options, the way other tools and heaptrack's users know them */
	{"collect", cmd_collect, NULL}, /* by the agent */
	{"--help", cmd_help, NULL},
	{"-h", cmd_help, NULL},
	{"--version", cmd_version, NULL},
	{"-V", cmd_version, NULL},
	{"-v", cmd_version, NULL},
	{"--analyze", cmd_analyze, NULL},
	{"-a", cmd_analyze, NULL},
};

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static void print_usage(FILE *to)
{
	fputs("Tidemark records every allocation of a program and shows where memory goes.\n"
	      "\n"
	      "Usage: tidemark [run] [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
	      "       tidemark COMMAND [OPTIONS]\n"
	      "\n"
	      "Commands:\n",
	      to);
	for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
		if (commands[i].help)
			fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
	fputs("\n"
	      "Options, the way heaptrack has them:\n"
	      "  -p, --pid PID       attach to a running process; other options may come before\n"
	      "  -a, --analyze FILE  show a trace: in the browser where there is a display, else\n"
	      "                      as a report\n"
	      "\n"
	      "Type 'tidemark help COMMAND' for a command's options.\n",
	      to);
}

static int fail_unknown(const char *word)
{
	fprintf(stderr, "tidemark: there is no command '%s'", word);
	for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
		if (commands[i].help && args_is_near(word, commands[i].name)) {
			fprintf(stderr, "; did you mean '%s'?\n", commands[i].name);
			return 2;
		}
	fputs(". Type 'tidemark help' for all commands.\n", stderr);
	return 2;
}

static int cmd_help(int argc, char **argv)
{
	if (argc < 2) {
		print_usage(stdout);
		return 0;
	}
	const struct command *command = find_command(argv[1]);
	if (!command)
		return fail_unknown(argv[1]);
	if (command->run == cmd_help || command->run == cmd_version) {
		print_usage(stdout);
		return 0;
	}
	char option[] = "--help";
	char *help_argv[] = {argv[1], option, NULL};
	return command->run(2, help_argv);
}

static int cmd_version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	puts("tidemark " TIDEMARK_VERSION);
	return 0;
}

/* heaptrack's word for looking at a trace: the page where there is a display, else the report. */
static int cmd_analyze(int argc, char **argv)
{
	char serve[] = "serve", open[] = "--open";
	char *serve_argv[] = {serve, open, argc > 1 ? argv[1] : NULL, NULL};
	bool has_display = getenv("DISPLAY") || getenv("WAYLAND_DISPLAY");
	if (argc != 2 || !has_display)
		return cmd_report(argc, argv);
	return cmd_serve(3, serve_argv);
}

static bool is_executable(const char *path)
{
	struct stat status;
	return !stat(path, &status) && S_ISREG(status.st_mode) && !access(path, X_OK);
}

/* As a shell would look for it. */
static bool is_program(const char *word)
{
	if (strchr(word, '/'))
		return is_executable(word);
	const char *path = getenv("PATH");
	while (path && *path) {
		size_t bytes = strcspn(path, ":");
		char whole[4096];
		int used = snprintf(whole, sizeof whole, "%.*s/%s", (int)bytes, path, word);
		if (used < (int)sizeof whole && is_executable(whole))
			return true;
		path += bytes + (path[bytes] == ':');
	}
	return false;
}

static bool is_trace(const char *word)
{
	size_t bytes = strlen(word);
	struct stat status;
	return bytes > 5 && !strcmp(word + bytes - 5, ".tide") && !stat(word, &status);
}

static bool looks_like_command(const char *word)
{
	for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
		if (commands[i].help && args_is_near(word, commands[i].name))
			return true;
	return false;
}

/* 'tidemark PROGRAM ...' and 'tidemark -o FILE PROGRAM ...': argv[0] stands for 'run'. */
static int run_without_word(int argc, char **argv)
{
	const char *word = argv[1];
	if (word[0] != '-' && !is_program(word)) {
		if (is_trace(word))
			return cmd_report(argc, argv);
		if (looks_like_command(word))
			return fail_unknown(word);
	}
	return cmd_run(argc, argv);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		print_usage(stderr);
		return 2;
	}
	const struct command *command = find_command(argv[1]);
	/* heaptrack's way to name a process: '-p 1234', '-p1234', '--pid 1234', '--pid=1234'. */
	if (!command && (!strcmp(argv[1], "--pid") || !strncmp(argv[1], "--pid=", 6) ||
			 !strncmp(argv[1], "-p", 2)))
		return cmd_attach(argc, argv);
	if (!command)
		return run_without_word(argc, argv);
	return command->run(argc - 1, argv + 1);
}

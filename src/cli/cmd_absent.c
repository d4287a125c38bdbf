/* SPDX-License-Identifier: Apache-2.0 */
/* In place of the commands that record or read binaries, in a build that only shows traces. */
#include <stdio.h>

#include "cli/commands.h"

static int refuse(const char *command)
{
	fprintf(stderr,
		"tidemark: '%s' is not part of this build, which only shows traces. Use the "
		"tidemark of the machine that the program runs on.\n",
		command);
	return 2;
}

int cmd_run(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return refuse("run");
}

int cmd_attach(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return refuse("attach");
}

int cmd_detach(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return refuse("detach");
}

int cmd_collect(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return refuse("collect");
}

int cmd_list(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return refuse("list");
}

int cmd_ctl(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return refuse("ctl");
}

int cmd_check(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return refuse("check");
}

int cmd_symbolize(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return refuse("symbolize");
}

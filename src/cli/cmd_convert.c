/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark convert IN OUT.tide: a trace of what another tool recorded. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/units.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/foreign.h"
#include "cli/newfile.h"
#include "cli/out.h"
#include "cli/traces.h"

enum { OPT_FORMAT = 1, OPT_FORCE, OPT_LIST, OPT_HELP };

static const struct args_option options[] = {
	{OPT_FORMAT, 0, "format", "F", "read IN as this, whatever it looks like; see --list"},
	{OPT_FORCE, 'f', "force", NULL, "replace OUT if it exists"},
	{OPT_LIST, 0, "list", NULL, "list the formats that can be read"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};

enum { OPTION_COUNT = sizeof options / sizeof options[0] };

struct request {
	const char *in, *out, *format;
	bool force, list, help;
};

static void print_help(void)
{
	puts("Usage: tidemark convert [OPTIONS] IN OUT.tide\n"
	     "\n"
	     "Makes a trace of a file that another tool recorded, so that every command opens\n"
	     "it at once. All commands read such files directly, too, and convert them each\n"
	     "time. The format is seen by the content; gzip and zstd are unpacked; '-' is\n"
	     "standard input.\n"
	     "\n"
	     "Options:");
	args_print_options(options, OPTION_COUNT);
	foreign_print_options();
}

static void print_list(void)
{
	const char *name, *title;
	for (size_t i = 0; import_format_at(i, &name, &title); i++)
		printf("%-12s %s\n", name, title);
}

static bool take(struct args *args, struct request *request, int id, const char *value)
{
	switch (id) {
	case OPT_FORMAT:
		request->format = value;
		return true;
	case OPT_FORCE:
		return request->force = true;
	case OPT_LIST:
		return request->list = true;
	case OPT_HELP:
		return request->help = true;
	default:
		return args_in_out(args, value, &request->in, &request->out);
	}
}

static bool parse(struct args *args, struct request *request)
{
	const char *value = NULL;
	int id;
	while ((id = args_next(args, &value)) != ARGS_END)
		if (id == ARGS_ERROR || !take(args, request, id, value))
			return false;
	bool enough = request->out || request->help || request->list;
	if (!enough)
		fputs("tidemark convert: name two files, as in 'tidemark convert "
		      "heaptrack.program.1234.zst program.tide'.\n",
		      stderr);
	return enough;
}

static void say(const struct request *request, const struct import_result *result)
{
	struct out out;
	struct stat status = {0};
	out_init(&out, OUT_COLOR_AUTO);
	(void)!stat(request->out, &status);
	out_name(&out, request->out, 0);
	text_print(&out.text, ": from %s, ", result->format);
	if (result->events)
		text_print(&out.text, "%s events, ", units_grouped(result->events).text);
	text_print(&out.text, "%s stacks, file %s\n", units_grouped(result->stacks).text,
		   units_bytes((uint64_t)status.st_size).text);
	if (result->cut)
		text_put(&out.text, "The file is not whole: what came after is missing.\n");
	(void)!out_finish(&out);
}

static int convert(const struct request *request, struct tm_error *err)
{
	struct import_result result;
	struct newfile file;
	int fd;
	int code = newfile_open(&file, request->out, &fd, err);
	if (code)
		return code;
	code = foreign_convert(request->in, fd, request->format, &result, err);
	if (!code)
		code = newfile_commit(&file, request->force, NULL, err);
	newfile_drop(&file);
	if (!code)
		say(request, &result);
	return code;
}

int cmd_convert(int argc, char **argv)
{
	struct args args = ARGS_OF("convert", argc, argv, options);
	args.shared = &foreign_args;
	struct request request = {0};
	struct tm_error err = {0};
	if (!parse(&args, &request))
		return 2;
	if (request.help || request.list) {
		(request.help ? print_help : print_list)();
		return 0;
	}
	if (!convert(&request, &err))
		return 0;
	traces_complain("convert", &err);
	return 1;
}

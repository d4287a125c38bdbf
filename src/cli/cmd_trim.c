/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark trim IN OUT: a part of a trace as a trace of its own. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/foreign.h"
#include "cli/newfile.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "cli/range.h"
#include "cli/traces.h"
#include "model/trim.h"

enum { OPT_FROM = 1, OPT_TO, OPT_IMAGE, OPT_FORCE, OPT_HELP };

static const struct args_option options[] = {
	{OPT_FROM, 0, "from", "TIME",
	 "where the part begins: 12.5s, 40%, peak; the start if not given"},
	{OPT_TO, 0, "to", "TIME", "where it ends, that moment included; the end if not given"},
	{OPT_IMAGE, 'i', "image", "N", "which image of the process, from 0; the last if not given"},
	{OPT_FORCE, 'f', "force", NULL, "replace OUT if it exists"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};

enum { OPTION_COUNT = sizeof options / sizeof options[0] };

struct request {
	const char *in, *out, *from, *to;
	bool force, help, has_section;
	uint64_t section;
};

static void print_help(void)
{
	puts("Usage: tidemark trim [OPTIONS] IN OUT\n"
	     "\n"
	     "Writes a part of a trace as a small trace of its own, which every command can\n"
	     "open. Blocks that lived when the part began stand at its time 0 as inherited;\n"
	     "stacks and names that it does not use are left out.\n"
	     "\n"
	     "Options:");
	args_print_options(options, OPTION_COUNT);
	foreign_print_options();
}

static bool take(struct args *args, struct request *request, int id, const char *value)
{
	switch (id) {
	case OPT_FROM:
		request->from = value;
		break;
	case OPT_TO:
		request->to = value;
		break;
	case OPT_IMAGE:
		request->has_section = true;
		return args_number(args, "--image", value, UINT32_MAX, &request->section);
	case OPT_FORCE:
		request->force = true;
		break;
	case OPT_HELP:
		request->help = true;
		break;
	default:
		return args_in_out(args, value, &request->in, &request->out);
	}
	return true;
}

static bool parse(struct args *args, struct request *request)
{
	const char *value = NULL;
	int id;
	while ((id = args_next(args, &value)) != ARGS_END)
		if (id == ARGS_ERROR || !take(args, request, id, value))
			return false;
	if (!request->out && !request->help)
		fputs("tidemark trim: name two files, as in 'tidemark trim --from 10s --to 12s "
		      "long.tide part.tide'.\n",
		      stderr);
	return request->out || request->help;
}

static int write_part(struct trace_reader *reader, int fd, const struct trim_options *part,
		      struct trim_result *result, struct tm_error *err)
{
	const struct trace_meta *meta;
	struct trace_writer *writer;
	struct tm_error ignored = {0};
	int code = trace_reader_meta(reader, &meta, err);
	if (code) {
		close(fd);
		return code;
	}
	struct trace_writer_options how = {.addresses = meta->addresses};
	code = trace_writer_open(fd, &how, &writer, err);
	if (code)
		return code;
	code = trim_section(reader, writer, part, result, err);
	int closed = trace_writer_close(writer, code ? &ignored : err);
	return code ? code : closed;
}

static void say(const struct request *request, const struct trim_options *part,
		const struct trim_result *result)
{
	struct out out;
	struct stat status = {0};
	out_init(&out, OUT_COLOR_AUTO);
	(void)!stat(request->out, &status);
	out_name(&out, request->out, 0);
	text_print(&out.text, ": %s to %s, %s events, %s blocks of %s inherited, file %s\n",
		   units_duration(part->from_ns).text,
		   request->to ? units_duration(part->to_ns).text : "the end",
		   units_grouped(result->events).text, units_grouped(result->inherited_blocks).text,
		   units_bytes(result->inherited_bytes).text,
		   units_bytes((uint64_t)status.st_size).text);
	(void)!out_finish(&out);
}

static int write_file(const struct request *request, struct trace_reader *reader,
		      const struct trim_options *part, struct tm_error *err)
{
	struct newfile file;
	struct trim_result result;
	struct progress progress;
	int fd;
	int code = newfile_open(&file, request->out, &fd, err);
	if (code)
		return code;
	const struct trim_options how = {.from_ns = part->from_ns,
					 .to_ns = part->to_ns,
					 .progress = progress_tell_fn,
					 .ctx = &progress};
	progress_begin(&progress, "trimming", "events");
	code = write_part(reader, fd, &how, &result, err);
	progress_end(&progress);
	if (code == -ECANCELED)
		tm_fail(err, code, "stopped; nothing was written");
	if (!code)
		code = newfile_commit(&file, request->force, NULL, err);
	newfile_drop(&file);
	if (!code)
		say(request, part, &result);
	return code;
}

static int trim(const struct request *request, struct tm_error *err)
{
	struct trace_reader *reader;
	struct trim_options part;
	int code = traces_open(request->in, &reader, err);
	if (code)
		return code;
	if (request->has_section)
		code = trace_reader_select(reader, (size_t)request->section, err);
	if (!code)
		code = range_parse(reader, request->from, request->to, &part.from_ns, &part.to_ns,
				   err);
	if (!request->to)
		part.to_ns =
			UINT64_MAX; /* also what comes after the last event: samples, the end */
	if (!code)
		code = write_file(request, reader, &part, err);
	trace_reader_close(reader);
	return code;
}

int cmd_trim(int argc, char **argv)
{
	struct args args = ARGS_OF("trim", argc, argv, options);
	args.shared = &foreign_args;
	struct request request = {0};
	struct tm_error err = {0};
	if (!parse(&args, &request))
		return 2;
	if (request.help) {
		print_help();
		return 0;
	}
	int code = trim(&request, &err);
	if (!code)
		return 0;
	traces_complain("trim", &err);
	return code == -EINVAL ? 2 : 1;
}

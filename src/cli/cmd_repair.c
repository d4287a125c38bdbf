/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark repair FILE: a sound trace of what is left of a damaged or unfinished one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/newfile.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "cli/traces.h"
#include "cli/unused.h"
#include "cli/values.h"
#include "model/repair.h"
#include "model/verify.h"
#include "trace/verify.h"

enum { OPT_OUTPUT = 1, OPT_FORCE, OPT_HELP };

static const struct args_option options[] = {
	{OPT_OUTPUT, 'o', "output", "FILE", "write there; FILE itself stays as it is"},
	{OPT_FORCE, 'f', "force", NULL, "replace an existing output; write anew what is sound"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};

enum { OPTION_COUNT = sizeof options / sizeof options[0] };

struct request {
	const char *path, *output;
	bool force, help;
};

static void print_help(void)
{
	puts("Usage: tidemark repair [OPTIONS] FILE\n"
	     "\n"
	     "Makes a sound trace of a damaged or unfinished one: whole blocks are kept, the\n"
	     "index and the stored figures are made anew, what cannot be read is counted. The\n"
	     "new file takes the place of the old one, which is kept as FILE.bak. A trace that is\n"
	     "still being recorded is refused, but for -o.\n"
	     "\n"
	     "Options:");
	args_print_options(options, OPTION_COUNT);
}

static bool parse(struct args *args, struct request *request)
{
	const char *value = NULL;
	int id;
	while ((id = args_next(args, &value)) != ARGS_END) {
		if (id == ARGS_ERROR)
			return false;
		request->force |= id == OPT_FORCE;
		request->help |= id == OPT_HELP;
		if (id == OPT_OUTPUT)
			request->output = value;
		if (id == ARGS_WORD && !values_trace(args, value, &request->path))
			return false;
	}
	return request->help || values_need_trace(args, request->path);
}

/* ---- is it sound? ---- */

struct soundness {
	struct progress progress;
	struct trace_problem first;
	uint64_t problems;
};

static int on_problem(void *ctx, const struct trace_problem *problem)
{
	struct soundness *s = ctx;
	if (!s->problems++)
		s->first = *problem;
	return 0;
}

static int on_progress(void *ctx, uint64_t done, uint64_t all)
{
	struct soundness *s = ctx;
	return progress_tell(&s->progress, done, all);
}

static int check(struct trace_reader *reader, struct soundness *s, struct tm_error *err)
{
	const struct trace_check hooks = {.problem = on_problem, .progress = on_progress, .ctx = s};
	progress_begin(&s->progress, "checking", "events");
	int code = trace_verify(reader, &hooks, err);
	for (size_t i = 0; i < trace_reader_section_count(reader) && !code; i++) {
		struct model_verified done;
		code = model_verify(reader, i, &hooks, &done, err);
	}
	progress_end(&s->progress);
	return code;
}

/* What was written must be sound, or it does not replace anything. */
static int check_result(const char *path, struct tm_error *err)
{
	struct trace_reader *reader;
	struct soundness s = {0};
	int code = trace_reader_open(path, &reader, err);
	if (code)
		return code;
	code = check(reader, &s, err);
	trace_reader_close(reader);
	if (!code && s.problems)
		code = tm_fail(err, -EBADMSG, "what is left cannot be made sound: %s",
			       s.first.text);
	return code;
}

/* ---- writing ---- */

static void add(struct repair_result *sum, const struct repair_result *part)
{
	sum->events += part->events;
	sum->unread += part->unread;
	sum->not_stored += part->not_stored;
	sum->ends_lost += part->ends_lost;
	sum->kept_slices |= part->kept_slices;
	sum->no_meta |= part->no_meta;
	sum->no_end |= part->no_end;
}

static int write_sections(struct trace_reader *reader, struct trace_writer *writer,
			  struct repair_result *sum, struct tm_error *err)
{
	struct progress progress;
	struct repair_options how = {.progress = progress_tell_fn, .ctx = &progress};
	size_t count = trace_reader_section_count(reader);
	int code = 0;
	progress_begin(&progress, "repairing", "events");
	for (size_t i = 0; i < count && !code; i++) {
		struct repair_result part = {0};
		code = trace_reader_select(reader, i, err);
		if (!code)
			code = repair_section(reader, writer, &how, &part, err);
		add(sum, &part);
	}
	progress_end(&progress);
	if (code == -ECANCELED)
		tm_fail(err, code, "stopped; nothing was changed");
	return code;
}

static int write_repaired(struct trace_reader *reader, int fd, struct repair_result *sum,
			  struct tm_error *err)
{
	struct trace_writer_options how = {.addresses = traces_have_addresses(reader)};
	struct trace_writer *writer;
	struct tm_error ignored = {0};
	int code = trace_writer_open(fd, &how, &writer, err);
	if (code)
		return code;
	code = write_sections(reader, writer, sum, err);
	int closed = trace_writer_close(writer, code ? &ignored : err);
	return code ? code : closed;
}

static void say(const struct request *request, const char *backup, const struct repair_result *sum)
{
	struct out out;
	out_init(&out, OUT_COLOR_AUTO);
	out_name(&out, request->output ? request->output : request->path, 0);
	text_print(&out.text, ": repaired: %s events kept", units_grouped(sum->events).text);
	if (sum->unread)
		text_print(&out.text, ", %s could not be read", units_grouped(sum->unread).text);
	if (sum->kept_slices)
		text_put(&out.text, "; the stored figures are sound and were kept");
	text_put(&out.text, ".\n");
	if (sum->unread && !sum->kept_slices)
		text_put(&out.text,
			 "The figures are now those of the events that are left: what was "
			 "freed in the lost part looks unfreed.\n");
	if (sum->no_meta)
		text_put(&out.text, "The name of the program and its command line are lost.\n");
	if (sum->no_end)
		text_put(&out.text, "How the recording ended is not known.\n");
	if (backup[0]) {
		text_put(&out.text, "The file as it was: ");
		out_name(&out, backup, 0);
		text_put_char(&out.text, '\n');
	}
	(void)!out_finish(&out);
}

static int replace(const struct request *request, struct trace_reader *reader, struct tm_error *err)
{
	struct newfile file;
	struct repair_result sum = {0};
	char backup[PATH_MAX] = "";
	int fd;
	int code = newfile_open(&file, request->output ? request->output : request->path, &fd, err);
	if (code)
		return code;
	code = write_repaired(reader, fd, &sum, err);
	if (!code)
		code = check_result(file.temporary, err);
	if (!code)
		code = newfile_commit(&file, request->force, request->output ? NULL : backup, err);
	newfile_drop(&file);
	if (!code)
		say(request, backup, &sum);
	return code;
}

/* A recording that goes on must not lose its file: only a copy of it can be repaired. */
static int open_trace(const struct request *request, struct trace_reader **ret_reader,
		      struct tm_error *err)
{
	struct trace_reader *reader;
	int code = traces_open_own(request->path, &reader, err);
	if (code)
		return code;
	if (!request->output && !trace_reader_indexed(reader)) {
		trace_reader_close(reader);
		code = unused_check(request->path, err);
		if (!code)
			code = traces_open_own(request->path, &reader, err);
		if (code)
			return code;
	}
	*ret_reader = reader;
	return 0;
}

static int repair(const struct request *request, struct tm_error *err)
{
	struct trace_reader *reader;
	struct soundness s = {0};
	int code = open_trace(request, &reader, err);
	if (code)
		return code;
	code = check(reader, &s, err);
	if (!code && !s.problems && !request->output && !request->force)
		printf("%s: sound: nothing to repair.\n", request->path);
	else if (!code)
		code = replace(request, reader, err);
	trace_reader_close(reader);
	return code;
}

int cmd_repair(int argc, char **argv)
{
	struct args args = ARGS_OF("repair", argc, argv, options);
	struct request request = {0};
	struct tm_error err = {0};
	if (!parse(&args, &request))
		return 2;
	if (request.help) {
		print_help();
		return 0;
	}
	if (!repair(&request, &err))
		return 0;
	traces_complain("repair", &err);
	return 1;
}

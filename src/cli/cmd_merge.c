/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark merge FILES: several traces become one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/units.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/foreign.h"
#include "cli/newfile.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "cli/traces.h"
#include "model/merge.h"

enum { OPT_OUTPUT = 1, OPT_ALIGN, OPT_UNFREED, OPT_FORCE, OPT_HELP };

static const struct args_option options[] = {
	{OPT_OUTPUT, 'o', "output", "FILE", "the merged trace; merged.tide if not given"},
	{OPT_ALIGN, 0, "align", "HOW",
	 "wall: by the wall clock; start: as if all had begun at once; if not given, wall where "
	 "all "
	 "ran on one host with no gap of more than a minute"},
	{OPT_UNFREED, 0, "unfreed", "HOW",
	 "what a process left when it ended: release: given back then; keep: it stays; if not "
	 "given, "
	 "release by the wall clock, keep from the start"},
	{OPT_FORCE, 'f', "force", NULL, "replace the output if it exists"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};

enum { OPTION_COUNT = sizeof options / sizeof options[0] };

struct request {
	const char **files;
	size_t file_count;
	const char *output;
	struct merge_options how;
	bool force, help;
};

static void print_help(void)
{
	puts("Usage: tidemark merge [OPTIONS] FILES\n"
	     "\n"
	     "Makes one trace of several: of the processes of one run, of the pieces of a\n"
	     "recording that was rotated, of the same program on many machines. Pieces are\n"
	     "joined without a seam. Several processes stand beside each other: a frame such\n"
	     "as 'process 4711 redis-server' is outside of all others in their stacks.\n"
	     "\n"
	     "Options:");
	args_print_options(options, OPTION_COUNT);
	foreign_print_options();
}

static bool take_word(const char *option, const char *value, const char *first, const char *second,
		      bool *ret_is_first)
{
	*ret_is_first = !strcmp(value, first);
	if (*ret_is_first || !strcmp(value, second))
		return true;
	fprintf(stderr, "tidemark merge: '%s' is nothing that %s can be: write %s or %s.\n", value,
		option, first, second);
	return false;
}

static bool take(struct request *request, int id, const char *value)
{
	bool is_first, ok = true;
	switch (id) {
	case OPT_OUTPUT:
		request->output = value;
		break;
	case OPT_ALIGN:
		ok = take_word("--align", value, "wall", "start", &is_first);
		request->how.align = is_first ? MERGE_ALIGN_WALL : MERGE_ALIGN_START;
		break;
	case OPT_UNFREED:
		ok = take_word("--unfreed", value, "release", "keep", &is_first);
		request->how.unfreed = is_first ? MERGE_UNFREED_RELEASE : MERGE_UNFREED_KEEP;
		break;
	case OPT_FORCE:
		request->force = true;
		break;
	case OPT_HELP:
		request->help = true;
		break;
	default:
		request->files[request->file_count++] = value;
		break;
	}
	return ok;
}

static bool parse(struct args *args, struct request *request)
{
	const char *value = NULL;
	int id;
	while ((id = args_next(args, &value)) != ARGS_END)
		if (id == ARGS_ERROR || !take(request, id, value))
			return false;
	if (!request->file_count && !request->help)
		fputs("tidemark merge: name the traces, as in 'tidemark merge -o all.tide "
		      "app.*.tide'.\n",
		      stderr);
	return request->file_count || request->help;
}

/* ---- the traces ---- */

struct inputs {
	struct trace_reader **readers;
	size_t count, room;
};

static void close_all(struct inputs *inputs)
{
	for (size_t i = 0; i < inputs->count; i++)
		trace_reader_close(inputs->readers[i]);
	tm_free(inputs->readers);
}

static int add(struct inputs *inputs, struct trace_reader *reader, struct tm_error *err)
{
	if (inputs->count == inputs->room) {
		size_t room = inputs->room * 2 + 16;
		void *grown = tm_grow_array(inputs->readers, room, sizeof *inputs->readers);
		if (!grown)
			return tm_fail(err, -ENOMEM, "no memory to open the traces");
		inputs->readers = grown;
		inputs->room = room;
	}
	inputs->readers[inputs->count++] = reader;
	return 0;
}

/* A reader has one section at a time: each gets its own. */
static int open_file(struct inputs *inputs, const char *path, struct tm_error *err)
{
	size_t sections = 1;
	int code = 0;
	for (size_t i = 0; i < sections && !code; i++) {
		struct trace_reader *reader;
		code = traces_open(path, &reader, err);
		if (code)
			return code;
		sections = trace_reader_section_count(reader);
		code = trace_reader_select(reader, i, err);
		if (!code)
			code = add(inputs, reader, err);
		if (code)
			trace_reader_close(reader);
	}
	return code;
}

/* ---- merging ---- */

static int write_merged(const struct request *request, const struct inputs *inputs, int fd,
			struct merge_result *result, struct tm_error *err)
{
	struct trace_writer_options how = {
		.addresses = merge_keeps_addresses(inputs->readers, inputs->count)};
	struct merge_options merging = request->how;
	struct trace_writer *writer;
	struct progress progress;
	struct tm_error ignored = {0};
	int code = trace_writer_open(fd, &how, &writer, err);
	if (code)
		return code;
	merging.progress = progress_tell_fn;
	merging.ctx = &progress;
	progress_begin(&progress, "merging", "events");
	code = merge_sections(inputs->readers, inputs->count, writer, &merging, result, err);
	progress_end(&progress);
	if (code == -ECANCELED)
		tm_fail(err, code, "stopped; nothing was written");
	int closed = trace_writer_close(writer, code ? &ignored : err);
	return code ? code : closed;
}

static void say(const char *path, const struct merge_result *result)
{
	struct out out;
	struct stat status = {0};
	out_init(&out, OUT_COLOR_AUTO);
	(void)!stat(path, &status);
	out_name(&out, path, 0);
	text_print(&out.text, ": %s events", units_grouped(result->events).text);
	if (result->processes > 1)
		text_print(&out.text, " of %zu processes, %s", result->processes,
			   result->by_wall_clock ? "by the wall clock" : "each from its start");
	if (result->pieces > result->processes)
		text_print(&out.text, ", %zu pieces joined with %s blocks across their borders",
			   result->pieces, units_grouped(result->joined_blocks).text);
	if (result->released_blocks)
		text_print(&out.text, ", %s blocks given back when their process ended",
			   units_grouped(result->released_blocks).text);
	text_print(&out.text, ", file %s\n", units_bytes((uint64_t)status.st_size).text);
	(void)!out_finish(&out);
}

static int merge(const struct request *request, struct tm_error *err)
{
	const char *path = request->output ? request->output : "merged.tide";
	struct inputs inputs = {0};
	struct newfile file = {.temporary = ""};
	struct merge_result result;
	int fd, code = 0;
	for (size_t i = 0; i < request->file_count && !code; i++)
		code = open_file(&inputs, request->files[i], err);
	if (!code)
		code = newfile_open(&file, path, &fd, err);
	if (!code)
		code = write_merged(request, &inputs, fd, &result, err);
	if (!code)
		code = newfile_commit(&file, request->force, NULL, err);
	newfile_drop(&file);
	close_all(&inputs);
	if (!code)
		say(path, &result);
	return code;
}

int cmd_merge(int argc, char **argv)
{
	struct args args = ARGS_OF("merge", argc, argv, options);
	args.shared = &foreign_args;
	struct request request = {.files = tm_alloc_array((size_t)argc + 1, sizeof(char *))};
	struct tm_error err = {0};
	int code = 2;
	if (!request.files) {
		fputs("tidemark merge: no memory.\n", stderr);
		return 1;
	}
	if (!parse(&args, &request)) {
		tm_free(request.files);
		return 2;
	}
	if (request.help) {
		print_help();
		code = 0;
	} else {
		code = merge(&request, &err);
		if (code)
			traces_complain("merge", &err);
		code = code == -EINVAL ? 2 : code != 0;
	}
	tm_free(request.files);
	return code;
}

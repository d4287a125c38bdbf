/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark symbolize FILE: names for a trace that has none, or better ones. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/units.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/out.h"
#include "cli/symbolize.h"
#include "cli/traces.h"
#include "cli/unused.h"
#include "cli/values.h"

enum { OPT_SYSROOT = 1, OPT_DEBUG_DIR, OPT_DEBUGINFOD, OPT_EMBED_SOURCE, OPT_QUIET, OPT_HELP };

static const struct args_option options[] = {
	{OPT_SYSROOT, 0, "sysroot", "DIR", "look for programs and libraries below DIR first"},
	{OPT_DEBUG_DIR, 0, "debug-dir", "DIR",
	 "look for debug files in DIR, as in /usr/lib/debug; may be given several times"},
	{OPT_DEBUGINFOD, 0, "debuginfod", NULL,
	 "ask the servers in DEBUGINFOD_URLS, else debuginfod.elfutils.org, for debug files"},
	{OPT_EMBED_SOURCE, 0, "embed-source", NULL,
	 "put the text of the source lines that are named into the file, too"},
	{OPT_QUIET, 'q', "quiet", NULL, "say nothing unless something is wrong"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};

enum { OPTION_COUNT = sizeof options / sizeof options[0], DEBUG_DIRS_MAX = 32 };

struct request {
	const char *path;
	const char *debug_dirs[DEBUG_DIRS_MAX];
	struct symbolize_options how;
	bool quiet, help;
};

static void print_help(void)
{
	puts("Usage: tidemark symbolize [OPTIONS] FILE\n"
	     "\n"
	     "Looks up the names of functions, files and lines and puts them into the trace.\n"
	     "Names that are there already are replaced where better ones are found. The new\n"
	     "file takes the place of the old one at one stroke; whoever has it open reads on.\n"
	     "Programs and libraries are recognised by their build-id: one that was replaced\n"
	     "since is not used, and named.\n"
	     "\n"
	     "Options:");
	args_print_options(options, OPTION_COUNT);
}

static bool take_option(const struct args *args, struct request *request, int id, const char *value)
{
	struct symbols_options *symbols = &request->how.symbols;
	switch (id) {
	case OPT_SYSROOT:
		symbols->sysroot = value;
		break;
	case OPT_DEBUG_DIR:
		if (symbols->debug_dir_count == DEBUG_DIRS_MAX) {
			fprintf(stderr, "tidemark symbolize: at most %d folders of debug files.\n",
				DEBUG_DIRS_MAX);
			return false;
		}
		request->debug_dirs[symbols->debug_dir_count++] = value;
		break;
	case OPT_DEBUGINFOD:
		symbols->debuginfod = SYMBOLS_DEBUGINFOD_ON;
		break;
	case OPT_EMBED_SOURCE:
		request->how.embed_source = true;
		break;
	case OPT_QUIET:
		request->quiet = true;
		break;
	case OPT_HELP:
		request->help = true;
		break;
	case ARGS_WORD:
		return values_trace(args, value, &request->path);
	default:
		return false;
	}
	return true;
}

static bool parse(struct args *args, struct request *request)
{
	const char *value = NULL;
	int id;
	while ((id = args_next(args, &value)) != ARGS_END)
		if (!take_option(args, request, id, value))
			return false;
	return request->help || values_need_trace(args, request->path);
}

static void complain(const char *text)
{
	struct text line = {0};
	text_put(&line, "tidemark symbolize: ");
	text_put_visible(&line, text, strlen(text));
	text_put(&line, "\n");
	fputs(text_string(&line), stderr);
	text_done(&line);
}

static void warn(void *ctx, const char *sentence)
{
	unsigned *count = ctx;
	enum { SHOWN = 10 };
	if (++*count <= SHOWN)
		complain(sentence);
	else if (*count == SHOWN + 1)
		complain("more files could not be used");
}

/* What takes long is mostly a download. */
static void tell(void *ctx, const char *what, uint64_t done, uint64_t total)
{
	(void)ctx;
	fprintf(stderr, "\r\033[K%.60s: %s", what, units_bytes(done).text);
	if (total)
		fprintf(stderr, " of %s", units_bytes(total).text);
	if (total && done >= total)
		fputs("\r\033[K", stderr);
	fflush(stderr);
}

static void say(const struct request *request, const struct symbolize_result *result)
{
	struct out out;
	out_init(&out, OUT_COLOR_AUTO);
	out_name(&out, request->path, 0);
	text_print(&out.text, ": %s of %s addresses have a name (before: %s), %s a line",
		   units_grouped(result->named).text, units_grouped(result->addresses).text,
		   units_grouped(result->named_before).text,
		   units_grouped(result->with_lines).text);
	if (result->source_lines)
		text_print(&out.text, "; %s lines of source",
			   units_grouped(result->source_lines).text);
	text_put(&out.text, ".\n");
	if (result->named < result->addresses)
		text_put(&out.text, "'tidemark report --symbols' says which are missing, and what "
				    "helps.\n");
	out_finish(&out);
}

static int run(struct request *request, struct symbolize_result *result, struct tm_error *err)
{
	struct trace_reader *reader = NULL;
	int code = traces_open_own(request->path, &reader, err);
	if (code)
		return code;
	bool finished = trace_reader_complete(reader);
	trace_reader_close(reader);
	if (!finished)
		code = unused_check(request->path, err);
	return code ? code : symbolize_file(request->path, &request->how, result, err);
}

int cmd_symbolize(int argc, char **argv)
{
	struct args args = ARGS_OF("symbolize", argc, argv, options);
	struct request request = {0};
	struct symbolize_result result = {0};
	struct tm_error err = {0};
	unsigned warnings = 0;
	if (!parse(&args, &request))
		return 2;
	if (request.help) {
		print_help();
		return 0;
	}
	struct symbols_options *symbols = &request.how.symbols;
	symbols->debug_dirs = request.debug_dirs;
	if (symbols->debuginfod == SYMBOLS_DEBUGINFOD_OFF)
		symbols->debuginfod = SYMBOLS_DEBUGINFOD_IF_SET;
	symbols->warn = warn;
	symbols->warn_ctx = &warnings;
	symbols->progress = isatty(STDERR_FILENO) ? tell : NULL;
	if (run(&request, &result, &err)) {
		traces_complain("symbolize", &err);
		return 1;
	}
	if (!request.quiet)
		say(&request, &result);
	return 0;
}

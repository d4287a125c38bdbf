/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark verify FILE: is a trace sound? Every block, every reference, every figure. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "base/units.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/foreign.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "cli/traces.h"
#include "cli/values.h"
#include "model/verify.h"
#include "trace/verify.h"

enum { OPT_JSON = 1, OPT_LIMIT, OPT_QUIET, OPT_HELP };
enum { SOUND = 0, DAMAGED = 1, UNREADABLE = 2 };
enum { LIMIT_DEFAULT = 20 };

static const struct args_option options[] = {
	{OPT_JSON, 'j', "json", NULL, "print JSON"},
	{OPT_LIMIT, 'n', "limit", "N", "show N problems (20 if not given); 0 shows all"},
	{OPT_QUIET, 'q', "quiet", NULL, "print nothing; the exit status says it"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};

enum { OPTION_COUNT = sizeof options / sizeof options[0] };

struct request {
	const char *path;
	bool json, quiet, help;
	uint64_t limit;
};

struct verdict {
	const struct request *request;
	struct out *out;
	struct json *json;
	struct progress progress;
	uint64_t problems, shown;
	struct model_verified done;
};

static void print_help(void)
{
	puts("Usage: tidemark verify [OPTIONS] FILE\n"
	     "\n"
	     "Checks a trace as a whole: the checksum of every block, what every record refers\n"
	     "to, the order of time, that every block lives when it ends, and that the stored\n"
	     "figures are those of the events. Exit status: 0 sound, 1 damaged or unfinished,\n"
	     "2 it cannot be read. 'tidemark repair' makes a sound file of what is left.\n"
	     "\n"
	     "Options:");
	args_print_options(options, OPTION_COUNT);
	foreign_print_options();
}

static bool take(struct args *args, struct request *request, int id, const char *value)
{
	switch (id) {
	case OPT_JSON:
		request->json = true;
		return true;
	case OPT_QUIET:
		request->quiet = true;
		return true;
	case OPT_HELP:
		request->help = true;
		return true;
	case OPT_LIMIT:
		return args_number(args, "--limit", value, UINT32_MAX, &request->limit);
	default:
		return values_trace(args, value, &request->path);
	}
}

static bool parse(struct args *args, struct request *request)
{
	const char *value = NULL;
	int id;
	while ((id = args_next(args, &value)) != ARGS_END)
		if (id == ARGS_ERROR || !take(args, request, id, value))
			return false;
	return request->help || values_need_trace(args, request->path);
}

static void put_problem(struct verdict *verdict, const struct trace_problem *problem)
{
	struct out *out = verdict->out;
	out_name(out, verdict->request->path, 0);
	if (problem->offset != UINT64_MAX)
		text_print(&out->text, ": offset %" PRIu64, problem->offset);
	text_print(&out->text, ": section %zu: ", problem->section);
	out_name(out, problem->text, 0);
	text_put_char(&out->text, '\n');
}

static void put_problem_json(struct json *json, const struct trace_problem *problem)
{
	json_begin_object(json, NULL);
	if (problem->offset != UINT64_MAX)
		json_u64(json, "offset", problem->offset);
	else
		json_null(json, "offset");
	json_u64(json, "section", problem->section);
	json_string(json, "problem", problem->text);
	json_end(json);
}

static int on_problem(void *ctx, const struct trace_problem *problem)
{
	struct verdict *verdict = ctx;
	verdict->problems++;
	if (verdict->request->limit && verdict->shown >= verdict->request->limit)
		return 0;
	verdict->shown++;
	if (verdict->request->json)
		put_problem_json(verdict->json, problem);
	else
		put_problem(verdict, problem);
	return 0;
}

static int on_progress(void *ctx, uint64_t done, uint64_t all)
{
	struct verdict *verdict = ctx;
	return progress_tell(&verdict->progress, done, all);
}

static int verify(struct trace_reader *reader, struct verdict *verdict, struct tm_error *err)
{
	struct trace_check check = {.problem = on_problem, .progress = on_progress, .ctx = verdict};
	progress_begin(&verdict->progress, "checking blocks", "B");
	int code = trace_verify(reader, &check, err);
	progress_end(&verdict->progress);
	size_t count = trace_reader_section_count(reader);
	progress_begin(&verdict->progress, "checking events", "events");
	for (size_t i = 0; i < count && !code; i++) {
		struct model_verified part = {0};
		code = model_verify(reader, i, &check, &part, err);
		verdict->done.events += part.events;
		verdict->done.slices += part.slices;
		verdict->done.slices_unproved += part.slices_unproved;
	}
	progress_end(&verdict->progress);
	const char *warning = trace_reader_warning(reader);
	if (!code && warning && !verdict->problems)
		code = trace_check_tell(&check, 0, UINT64_MAX, "%s", warning);
	if (code == -ECANCELED)
		tm_fail(err, code, "stopped before the end: '%s' is not wholly checked",
			verdict->request->path);
	return code;
}

static void put_sum(struct verdict *verdict, size_t section_count)
{
	struct text *text = &verdict->out->text;
	if (verdict->problems > verdict->shown)
		text_print(text, "and %s more problems\n",
			   units_grouped(verdict->problems - verdict->shown).text);
	out_name(verdict->out, verdict->request->path, 0);
	text_print(text, ": %s: %zu section%s, %s events, %s slices proved",
		   verdict->problems ? "damaged" : "sound", section_count,
		   section_count == 1 ? "" : "s", units_grouped(verdict->done.events).text,
		   units_grouped(verdict->done.slices).text);
	if (verdict->done.slices_unproved)
		text_print(text, ", %s not (events that they count are not in the file)",
			   units_grouped(verdict->done.slices_unproved).text);
	text_put(text, verdict->problems
			       ? ". 'tidemark repair' makes a sound file of what is left.\n"
			       : ".\n");
}

static int check_file(const struct request *request, struct out *out, struct tm_error *err)
{
	struct trace_reader *reader;
	struct json json = {.out = &out->text, .pretty = true};
	struct verdict verdict = {.request = request, .out = out, .json = &json};
	int code = traces_open(request->path, &reader, err);
	if (code)
		return code;
	size_t count = trace_reader_section_count(reader);
	if (request->json) {
		json_begin_object(&json, NULL);
		json_string(&json, "file", request->path);
		json_begin_array(&json, "problems");
	}
	code = verify(reader, &verdict, err);
	trace_reader_close(reader);
	if (code)
		return code;
	if (request->json) {
		json_end(&json);
		json_bool(&json, "sound", verdict.problems == 0);
		json_u64(&json, "problem_count", verdict.problems);
		json_u64(&json, "sections", count);
		json_u64(&json, "events", verdict.done.events);
		json_u64(&json, "slices", verdict.done.slices);
		json_u64(&json, "slices_unproved", verdict.done.slices_unproved);
		json_end(&json);
		text_put_char(&out->text, '\n');
	} else {
		put_sum(&verdict, count);
	}
	return verdict.problems ? DAMAGED : SOUND;
}

int cmd_verify(int argc, char **argv)
{
	struct args args = ARGS_OF("verify", argc, argv, options);
	args.shared = &foreign_args;
	struct request request = {.limit = LIMIT_DEFAULT};
	struct tm_error err = {0};
	struct out out;
	if (!parse(&args, &request))
		return UNREADABLE;
	if (request.help) {
		print_help();
		return 0;
	}
	out_init(&out, OUT_COLOR_AUTO);
	int code = check_file(&request, &out, &err);
	if (code < 0) {
		text_done(&out.text);
		traces_complain("verify", &err);
		return UNREADABLE;
	}
	if (request.quiet)
		text_clear(&out.text);
	return out_finish(&out) ? UNREADABLE : code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark report FILE: what a trace says about the heap. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/args.h"
#include "cli/commands.h"
#include "cli/report.h"

enum { LIMIT_TEXT = 5, LIMIT_JSON = 10 };

enum {
	OPT_JSON = 1,
	OPT_LIMIT,
	OPT_SECTION,
	OPT_BY,
	OPT_STACKS,
	OPT_KINDS,
	OPT_COLOR,
	OPT_HELP,
};

static const struct args_option options[] = {
	{OPT_JSON, 'j', "json", NULL, "print JSON (docs/report-json.md describes it)"},
	{OPT_LIMIT, 'n', "limit", "N", "show N sites of each kind; 0 shows all"},
	{OPT_SECTION, 's', "section", "N|all",
	 "which image of the process after execs, from 0; the last if not given"},
	{OPT_BY, 0, "by", "function", "figures of every function, self and inclusive"},
	{OPT_STACKS, 0, "stacks", NULL, "figures of every stack, one per line"},
	{OPT_KINDS, 0, "kinds", "FILE",
	 "rules of kinds of frames (docs/kinds.md) before all others"},
	{OPT_COLOR, 0, "color", "WHEN", "auto, always or never"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};

struct request {
	const char *path, *kinds;
	bool json, by_function, stacks, all_sections, has_section, has_limit, help;
	uint64_t section, limit;
	enum out_color color;
};

static void print_help(void)
{
	puts("Usage: tidemark report [OPTIONS] FILE\n"
	     "\n"
	     "Prints what a trace says about the heap: totals, and the sites that hold the\n"
	     "peak, left blocks unfreed, allocated most often and allocated for a moment only,\n"
	     "with their stacks. 'Unfreed' is what was live at the end; that alone is no leak.\n"
	     "\n"
	     "Options:");
	args_print_options(options, sizeof options / sizeof options[0]);
}

static bool parse_color(struct request *request, const char *value)
{
	static const char *const names[] = {"auto", "always", "never"};
	for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
		if (!strcmp(value, names[i])) {
			request->color = (enum out_color)i;
			return true;
		}
	fprintf(stderr, "tidemark report: '--color' takes auto, always or never, not '%s'.\n",
		value);
	return false;
}

static bool parse_section(const struct args *args, struct request *request, const char *value)
{
	request->has_section = true;
	request->all_sections = !strcmp(value, "all");
	return request->all_sections ||
	       args_number(args, "--section", value, UINT32_MAX, &request->section);
}

static bool parse_by(struct request *request, const char *value)
{
	request->by_function = !strcmp(value, "function");
	if (!request->by_function)
		fprintf(stderr, "tidemark report: '--by' takes 'function', not '%s'.\n", value);
	return request->by_function;
}

static bool parse_word(struct request *request, const char *word)
{
	if (request->path) {
		fprintf(stderr, "tidemark report: one trace at a time: '%s' comes after '%s'.\n",
			word, request->path);
		return false;
	}
	request->path = word;
	return true;
}

static bool parse(struct args *args, struct request *request)
{
	const char *value = NULL;
	bool ok = true;
	int id;
	while (ok && (id = args_next(args, &value)) != ARGS_END) {
		switch (id) {
		case ARGS_ERROR:
			return false;
		case ARGS_WORD:
			ok = parse_word(request, value);
			break;
		case OPT_JSON:
			request->json = true;
			break;
		case OPT_LIMIT:
			request->has_limit = true;
			ok = args_number(args, "--limit", value, UINT32_MAX, &request->limit);
			break;
		case OPT_SECTION:
			ok = parse_section(args, request, value);
			break;
		case OPT_BY:
			ok = parse_by(request, value);
			break;
		case OPT_STACKS:
			request->stacks = true;
			break;
		case OPT_KINDS:
			request->kinds = value;
			break;
		case OPT_COLOR:
			ok = parse_color(request, value);
			break;
		case OPT_HELP:
			request->help = true;
			return true;
		}
	}
	if (ok && !request->path) {
		fputs("tidemark report: which trace? Name a file, as in 'tidemark report "
		      "tidemark.program.1234.tide'.\n",
		      stderr);
		return false;
	}
	return ok;
}

static void unload(struct report *report)
{
	report->data = view_data_free(report->data);
	report->model = model_free(report->model);
}

static int load(struct report *report, struct tm_error *err)
{
	int code = trace_reader_select(report->reader, report->section, err);
	if (!code)
		code = model_load(report->reader, &report->model, err);
	if (!code)
		code = view_input_read(report->reader, &report->input, err);
	if (code)
		return code;
	report->input.model = report->model;
	report->input.kinds = report->kinds;
	model_totals(report->model, &report->totals);
	code = view_data_new(&report->input, &report->data, err);
	if (!code)
		view_rss(report->data, &report->rss);
	return code;
}

static int print_section(struct report *report, const struct request *request, struct out *out,
			 struct json *json, struct tm_error *err)
{
	int code = load(report, err);
	if (!code && request->json)
		code = report_json(report, json, err);
	else if (!code && request->stacks)
		report_stack_lines(report, out);
	else if (!code)
		code = report_text(report, out, err);
	unload(report);
	return code;
}

static int print_sections(struct report *report, const struct request *request, struct out *out,
			  struct tm_error *err)
{
	struct json json = {.out = &out->text, .pretty = true};
	size_t first = report->section_count - 1, end = report->section_count;
	if (request->all_sections) {
		first = 0;
	} else if (request->has_section) {
		if (request->section >= report->section_count)
			return tm_fail(err, -EINVAL,
				       "'%s' has no section %llu: its sections are 0 to %zu",
				       report->path, (unsigned long long)request->section,
				       report->section_count - 1);
		first = (size_t)request->section;
		end = first + 1;
	}
	if (request->json && request->all_sections) {
		json_begin_object(&json, NULL);
		json_begin_array(&json, "sections");
	}
	int code = 0;
	for (report->section = first; !code && report->section < end; report->section++) {
		if (!request->json && report->section > first)
			text_put_char(&out->text, '\n');
		code = print_section(report, request, out, &json, err);
	}
	if (request->json && request->all_sections) {
		json_end(&json);
		json_end(&json);
	}
	if (request->json)
		text_put_char(&out->text, '\n');
	return code;
}

/* Says more than the reader can about what is no file at all. */
static int check_path(const char *path, struct tm_error *err)
{
	struct stat status;
	if (stat(path, &status))
		return tm_fail(err, -errno, "'%s' cannot be opened: %s", path, strerror(errno));
	if (S_ISDIR(status.st_mode))
		return tm_fail(err, -EISDIR, "'%s' is a folder: name a trace file (*.tide) in it",
			       path);
	if (!S_ISREG(status.st_mode))
		return tm_fail(err, -EINVAL,
			       "'%s' is not a regular file: copy the trace to a file first", path);
	return 0;
}

/* The built-in rules, then the user's own, then those of --kinds: the last come first. */
static int load_kinds(const char *path, struct kinds **ret_kinds, struct tm_error *err)
{
	int code = kinds_new(ret_kinds, err);
	if (!code)
		code = kinds_read_default(*ret_kinds, err);
	if (!code && path)
		code = kinds_read_file(*ret_kinds, path, err);
	return code;
}

static int run(const struct request *request, struct out *out, struct tm_error *err)
{
	struct report report = {.path = request->path};
	report.options = (struct report_options){
		.limit = request->json ? LIMIT_JSON : LIMIT_TEXT,
		.by_function = request->by_function,
		.stacks = request->stacks,
	};
	if (request->has_limit) {
		report.options.limit = request->limit;
		report.options.function_limit = request->limit;
	}
	int code = check_path(request->path, err);
	if (!code)
		code = load_kinds(request->kinds, &report.kinds, err);
	if (!code)
		code = trace_reader_open(request->path, &report.reader, err);
	if (code) {
		kinds_free(report.kinds);
		return code;
	}
	report.section_count = trace_reader_section_count(report.reader);
	if (report.section_count)
		code = print_sections(&report, request, out, err);
	else
		code = tm_fail(err, -ENODATA,
			       "'%s' holds no recording: it was cut off before its "
			       "first block was written",
			       request->path);
	trace_reader_close(report.reader);
	kinds_free(report.kinds);
	return code;
}

int cmd_report(int argc, char **argv)
{
	struct args args = {
		.command = "report",
		.argc = argc,
		.argv = argv,
		.at = 1,
		.options = options,
		.option_count = sizeof options / sizeof options[0],
	};
	struct request request = {0};
	if (!parse(&args, &request))
		return 2;
	if (request.help) {
		print_help();
		return 0;
	}
	struct out out;
	struct tm_error err = {0};
	out_init(&out, request.color);
	int code = run(&request, &out, &err);
	if (code) {
		text_done(&out.text);
		bool ended = err.text[0] && strchr(".?!", err.text[strlen(err.text) - 1]);
		fprintf(stderr, "tidemark report: %s%s\n", err.text, ended ? "" : ".");
		return 1;
	}
	return out_finish(&out);
}

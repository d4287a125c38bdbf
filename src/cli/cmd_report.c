/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark report FILE: what a trace says about the heap. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/report.h"
#include "cli/report_follow.h"
#include "cli/traces.h"

static int print_image(struct report *report, struct out *out, struct json *json,
		       struct tm_error *err)
{
	const struct report_options *options = report->options;
	int code = report_load(report, err);
	if (code)
		;
	else if (options->json)
		code = report_json(report, json, err);
	else if (options->csv)
		code = report_csv(report, &out->text, err);
	else if (options->stacks)
		report_stack_lines(report, out);
	else
		code = report_text(report, out, err);
	report_unload(report);
	return code;
}

/* Which images of the process: [*ret_first, *ret_end). */
static int choose_images(const struct report *report, size_t *ret_first, size_t *ret_end,
			 struct tm_error *err)
{
	const struct report_options *options = report->options;
	*ret_first = options->all_images ? 0 : report->section_count - 1;
	*ret_end = report->section_count;
	if (!options->has_image || options->all_images)
		return 0;
	if (options->image >= report->section_count)
		return tm_fail(err, -EINVAL, "'%s' has no image %llu: its images are 0 to %zu",
			       report->path, (unsigned long long)options->image,
			       report->section_count - 1);
	*ret_first = (size_t)options->image;
	*ret_end = *ret_first + 1;
	return 0;
}

static int print_images(struct report *report, struct out *out, struct tm_error *err)
{
	const struct report_options *options = report->options;
	struct json json = {.out = &out->text, .pretty = true};
	bool list = options->json && options->all_images;
	size_t first, end;
	int code = choose_images(report, &first, &end, err);
	if (code)
		return code;
	if (list) {
		json_begin_object(&json, NULL);
		json_begin_array(&json, "sections");
	}
	for (report->section = first; !code && report->section < end; report->section++) {
		if (!options->json && report->section > first)
			text_put_char(&out->text, '\n');
		code = print_image(report, out, &json, err);
	}
	if (list) {
		json_end(&json);
		json_end(&json);
	}
	if (options->json)
		text_put_char(&out->text, '\n');
	return code;
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

int report_print(const struct report_options *options, struct out *out, bool *ret_complete,
		 struct tm_error *err)
{
	struct report report = {.path = options->path, .options = options};
	int code = load_kinds(options->kinds, &report.kinds, err);
	if (!code)
		code = traces_open(options->path, &report.reader, err);
	if (code) { /* -EINVAL is for mistakes in the command line */
		kinds_free(report.kinds);
		return code == -EINVAL ? -EMEDIUMTYPE : code;
	}
	report.section_count = trace_reader_section_count(report.reader);
	if (report.section_count)
		code = print_images(&report, out, err);
	else
		code = tm_fail(err, -ENODATA,
			       "'%s' holds no recording: it was cut off before its "
			       "first block was written",
			       options->path);
	/* Not the end of the section: after an exec another one comes. */
	*ret_complete = trace_reader_indexed(report.reader);
	trace_reader_close(report.reader);
	kinds_free(report.kinds);
	return code;
}

static int print_once(const struct report_options *options)
{
	struct out out;
	struct tm_error err = {0};
	bool complete;
	out_init(&out, options->color);
	out.exact = options->exact;
	out.full_names = options->full_names;
	int code = report_print(options, &out, &complete, &err);
	if (code) {
		text_done(&out.text);
		traces_complain("report", &err);
		return code == -EINVAL ? 2 : 1;
	}
	return options->no_pager ? out_finish(&out) : out_finish_paged(&out);
}

int cmd_report(int argc, char **argv)
{
	struct report_options options;
	int status = 2;
	if (report_parse(argc, argv, &options)) {
		status = 0;
		if (options.help)
			report_print_help();
		else if (options.follow)
			status = report_follow(&options);
		else
			status = print_once(&options);
	}
	report_options_done(&options);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark export FILE --format F: a trace in the formats of other tools. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/export_options.h"
#include "cli/newfile.h"
#include "cli/progress.h"
#include "cli/traces.h"

static int write_fd(void *ctx, const void *data, size_t bytes)
{
	return io_write(*(const int *)ctx, data, bytes);
}

static enum outlet_packing packing_of(const struct export_options *options)
{
	if (options->format->gzip)
		return OUTLET_GZIP;
	return options->out ? outlet_packing_of(options->out) : OUTLET_PLAIN;
}

static int write_stream(const struct export_options *options, const struct export_input *input,
			int fd, struct tm_error *err)
{
	struct outlet outlet;
	int code = outlet_open(&outlet, packing_of(options), write_fd, &fd);
	if (code)
		return tm_fail(err, code, "no memory for the export");
	code = export_write(options->format, input, &outlet, err);
	int closed = outlet_close(&outlet);
	if (!code && closed)
		code = closed;
	if (code && !err->text[0])
		tm_fail(err, code, "'%s' cannot be written: %s",
			options->out ? options->out : "standard output", strerror(-code));
	return code;
}

static int write_file(const struct export_options *options, const struct export_input *input,
		      struct tm_error *err)
{
	struct newfile file;
	int fd;
	int code = newfile_open(&file, options->out, &fd, err);
	if (code)
		return code;
	if (options->format->write_file)
		code = options->format->write_file(input, file.temporary, err);
	else
		code = write_stream(options, input, fd, err);
	close(fd);
	if (!code)
		code = newfile_commit(&file, options->force, NULL, err);
	newfile_drop(&file);
	return code;
}

/* A closed pipe is the reader's choice. */
static int write_output(const struct export_options *options, const struct export_input *input,
			struct tm_error *err)
{
	if (options->out)
		return write_file(options, input, err);
	signal(SIGPIPE, SIG_IGN);
	int code = write_stream(options, input, STDOUT_FILENO, err);
	return code == -EPIPE ? 0 : code;
}

static int write_loaded(const struct export_options *options, struct report *report,
			struct tm_error *err)
{
	struct progress progress;
	const struct view_mode *mode = report_mode(report);
	struct export_input input = {
		.path = report->opened_path,
		.name = report->opened_path == report->path ? NULL : report->path,
		.facts = &report->input,
		.data = report->data,
		.section = report->query,
		.filter = report->bound,
		.from_ns = report->is_asked ? report->answer.from_ns : 0,
		.to_ns = report->is_asked ? report->answer.to_ns : query_duration_ns(report->query),
		.first_event = report->is_asked ? report->answer.first_event : 0,
		.end_event = report->is_asked
				     ? report->answer.first_event + report->answer.event_count
				     : UINT64_MAX,
		.is_part = report->is_part,
		.mode = mode,
		.cost = options->has_cost ? options->cost : mode->bytes,
		.limit = options->report.limit,
		.view = options->view,
		.progress = {.fn = progress_tell_fn, .ctx = &progress},
	};
	progress_begin(&progress, "exporting", "events");
	int code = write_output(options, &input, err);
	progress_end(&progress);
	if (code == -ECANCELED)
		tm_fail(err, code, "stopped; nothing was written");
	return code;
}

static int choose_image(struct report *report, struct tm_error *err)
{
	report->section_count = trace_reader_section_count(report->reader);
	if (!report->section_count)
		return tm_fail(err, -ENODATA, "'%s' holds no recording", report->path);
	report->section = report->section_count - 1;
	if (!report->options->has_image)
		return 0;
	if (report->options->image >= report->section_count)
		return tm_fail(err, -EINVAL, "'%s' has no image %llu: its images are 0 to %zu",
			       report->path, (unsigned long long)report->options->image,
			       report->section);
	report->section = (size_t)report->options->image;
	return 0;
}

static int export_trace(const struct export_options *options, struct tm_error *err)
{
	struct report report = {.path = options->report.path, .options = &options->report};
	char name[TRACES_NAME_BYTES];
	int code = kinds_new(&report.kinds, err);
	if (!code)
		code = kinds_read_default(report.kinds, err);
	if (!code && options->report.kinds)
		code = kinds_read_file(report.kinds, options->report.kinds, err);
	if (!code)
		code = traces_resolve(report.path, name, &report.opened_path, err);
	if (!code)
		code = trace_reader_open(report.opened_path, &report.reader, err);
	if (code == -EINVAL) /* is for mistakes in the command line */
		code = -EMEDIUMTYPE;
	if (!code)
		code = choose_image(&report, err);
	if (!code) {
		code = report_load(&report, err);
		if (!code)
			code = write_loaded(options, &report, err);
		report_unload(&report);
	}
	trace_reader_close(report.reader);
	kinds_free(report.kinds);
	return code;
}

int cmd_export(int argc, char **argv)
{
	struct export_options options;
	struct tm_error err = {0};
	int status = 2, code = 0;
	if (export_parse(argc, argv, &options)) {
		status = 0;
		if (options.help)
			export_print_help();
		else if (options.list)
			export_print_formats();
		else
			code = export_trace(&options, &err);
	}
	if (code) {
		traces_complain("export", &err);
		status = code == -EINVAL ? 2 : 1;
	}
	export_options_done(&options);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `tidemark export`. */
#include "cli/export_options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/args.h"
#include "cli/export_page.h"
#include "cli/fold.h"
#include "cli/foreign.h"
#include "cli/values.h"

enum {
	OPT_FORMAT = 1,
	OPT_OUTPUT,
	OPT_FORCE,
	OPT_VIEW,
	OPT_COST,
	OPT_FROM,
	OPT_TO,
	OPT_AT,
	OPT_MODE,
	OPT_FILTER,
	OPT_FOLD,
	OPT_KINDS,
	OPT_LIMIT,
	OPT_IMAGE,
	OPT_HELP,
};

static const struct args_option options[] = {
	{OPT_FORMAT, 'f', "format", "NAME", "the format; 'list' shows all"},
	{OPT_OUTPUT, 'o', "output", "FILE",
	 "write there, packed if it ends in .gz or .zst; - is "
	 "standard output"},
	{OPT_FORCE, 0, "force", NULL, "replace a file that exists"},
	{OPT_VIEW, 0, "view", "NAME", "of csv and json: which table (docs/export.md)"},
	{OPT_COST, 0, "cost", "FIGURE", "the figure of a stack: peak_bytes, allocations ..."},
	{OPT_FROM, 0, "from", "TIME", "from here on: 1.5s, 250ms, 40%, peak, a mark's name"},
	{OPT_TO, 0, "to", "TIME", "up to here"},
	{OPT_AT, 0, "at", "TIME", "what was live at this moment"},
	{OPT_MODE, 'm', "mode", "MODE", "live, allocated, freed, surviving or peak"},
	{OPT_FILTER, 'F', "filter", "EXPR", "only these blocks: 'function:parse and size>=4K'"},
	{OPT_FOLD, 0, "fold", "KINDS", "leave out frames: allocator, runtime, noise ..."},
	{OPT_KINDS, 0, "kinds", "FILE", "rules of kinds of frames (docs/kinds.md)"},
	{OPT_LIMIT, 'n', "limit", "N", "only the N largest stacks or rows; 0 is all"},
	{OPT_IMAGE, 'i', "image", "N", "after execs: which program, from 0; else the last"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};
enum { OPTION_COUNT = sizeof options / sizeof options[0] };

/* Number `index` of all formats; NULL at the end. */
static const struct export_format *format_at(size_t index)
{
	if (index < export_format_count)
		return export_formats[index];
	return index == export_format_count ? &export_page : NULL;
}

static void print_formats(const char *before)
{
	const struct export_format *format;
	for (size_t i = 0; (format = format_at(i)); i++)
		printf("%s%-10s  %s\n", before, format->name, format->help);
}

void export_print_formats(void)
{
	print_formats("");
}

void export_print_help(void)
{
	puts("Usage: tidemark export FILE --format NAME [-o FILE] [OPTIONS]\n"
	     "\n"
	     "Writes what a trace says in a format that another tool reads. Without -o it goes\n"
	     "to standard output, or beside the trace if the format is binary and standard\n"
	     "output a terminal.\n"
	     "\n"
	     "Options:");
	args_print_options(options, OPTION_COUNT);
	foreign_print_options();
	puts("\nFormats:");
	print_formats("  ");
}

static bool parse_format(struct export_options *o, const char *value)
{
	o->list = !strcmp(value, "list");
	const struct export_format *format;
	for (size_t i = 0; (format = format_at(i)); i++)
		if (!strcmp(format->name, value))
			o->format = format;
	if (o->list || o->format)
		return true;
	fprintf(stderr, "tidemark export: there is no format '%s'", value);
	for (size_t i = 0; (format = format_at(i)); i++)
		if (args_is_near(value, format->name))
			fprintf(stderr, "; did you mean '%s'", format->name);
	fputs(". '--format list' shows all.\n", stderr);
	return false;
}

static bool parse_cost(struct export_options *o, const char *value)
{
	o->has_cost = true;
	for (size_t i = 0; i < VIEW_FIGURE_COUNT; i++)
		if (!strcmp(view_columns[i].key, value)) {
			o->cost = (enum view_figure)i;
			return true;
		}
	fputs("tidemark export: '--cost' takes a figure:", stderr);
	for (size_t i = 0; i < VIEW_FIGURE_COUNT; i++)
		fprintf(stderr, "%s %s", i ? "," : "", view_columns[i].key);
	fprintf(stderr, "; not '%s'.\n", value);
	return false;
}

static bool set_option(const struct args *args, struct export_options *o, int id, const char *value)
{
	struct report_options *report = &o->report;
	switch (id) {
	case ARGS_WORD:
		return values_trace(args, value, &report->path);
	case OPT_FORMAT:
		return parse_format(o, value);
	case OPT_OUTPUT:
		o->out = value;
		return true;
	case OPT_FORCE:
		o->force = true;
		return true;
	case OPT_VIEW:
		o->view = value;
		return true;
	case OPT_COST:
		return parse_cost(o, value);
	case OPT_FROM:
		report->from = value;
		return true;
	case OPT_TO:
		report->to = value;
		return true;
	case OPT_AT:
		report->at = value;
		return true;
	case OPT_MODE:
		return values_mode(args, value, &report->mode);
	case OPT_FILTER:
		report->filter = value;
		return values_filter(args, value, &report->parsed);
	case OPT_FOLD:
		return values_fold(args, value, &report->fold);
	case OPT_KINDS:
		report->kinds = value;
		return true;
	case OPT_LIMIT:
		return args_number(args, "--limit", value, UINT32_MAX, &report->limit);
	case OPT_IMAGE:
		report->has_image = true;
		return args_number(args, "--image", value, UINT32_MAX, &report->image);
	case OPT_HELP:
		o->help = true;
		return true;
	}
	return false;
}

/* Where it goes, if that was not said. */
static bool settle_output(const struct args *args, struct export_options *o)
{
	bool is_stdout = !o->out || !strcmp(o->out, "-");
	bool needs_file = o->format->write_file;
	if (o->out && is_stdout && needs_file)
		return values_complain(
			args, "this format is a file that is not written from front to back: "
			      "name one with '-o FILE'.");
	if (o->out && is_stdout && o->format->binary && isatty(STDOUT_FILENO))
		return values_complain(
			args, "this format is binary and standard output is a terminal: name a "
			      "file with '-o FILE', or use a pipe.");
	if (o->out || (!needs_file && !(o->format->binary && isatty(STDOUT_FILENO)))) {
		o->out = is_stdout ? NULL : o->out;
		return true;
	}
	int used = snprintf(o->made_out, sizeof o->made_out, "%s%s", o->report.path,
			    o->format->suffix);
	o->out = o->made_out;
	return used < (int)sizeof o->made_out ||
	       values_complain(args, "the name of the trace is too long.");
}

static bool check(const struct args *args, struct export_options *o)
{
	if (!o->format)
		return values_complain(args, "which format? '--format list' shows all.");
	if (!o->report.path)
		return values_complain(args, "which trace? Name a file, as in 'tidemark export "
					     "tidemark.program.1234.tide --format pprof'.");
	if (o->report.at && (o->report.from || o->report.to))
		return values_complain(
			args, "'--at' is a moment, '--from' and '--to' are a range: give one or "
			      "the other.");
	if (o->view && !o->format->takes_view)
		return values_complain(args, "'--view' is for the formats csv and json.");
	return settle_output(args, o);
}

bool export_parse(int argc, char **argv, struct export_options *ret_options)
{
	struct args args = ARGS_OF("export", argc, argv, options);
	args.shared = &foreign_args;
	const char *value = NULL;
	int id;
	*ret_options = (struct export_options){0};
	while ((id = args_next(&args, &value)) != ARGS_END) {
		if (id == ARGS_ERROR || !set_option(&args, ret_options, id, value))
			return false;
		if (ret_options->help)
			return true;
	}
	/* Figures as recorded: nothing is taken out of what was left unfreed. */
	ret_options->report.suppressed.no_builtin = true;
	ret_options->report.sections[0] = report_section_find("peak");
	ret_options->report.section_count = 1;
	if (ret_options->list)
		return true;
	bool good = check(&args, ret_options);
	report_settle_moment(&ret_options->report);
	return good;
}

void export_options_done(struct export_options *o)
{
	o->report.parsed = filter_free(o->report.parsed);
}

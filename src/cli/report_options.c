/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `tidemark report`. */
#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/fold.h"
#include "cli/foreign.h"
#include "cli/report.h"
#include "cli/values.h"

enum {
	OPT_JSON = 1,
	OPT_CSV,
	OPT_SECTION,
	OPT_TREE,
	OPT_BOTTOM_UP,
	OPT_FUNCTION,
	OPT_GROUP,
	OPT_BY,
	OPT_STACKS,
	OPT_SYMBOLS,
	OPT_GROWTH,
	OPT_LIMIT_BYTES,
	OPT_FROM,
	OPT_TO,
	OPT_AT,
	OPT_MODE,
	OPT_FILTER,
	OPT_FOLD,
	OPT_KINDS,
	OPT_SUPPRESSIONS,
	OPT_NO_BUILTIN,
	OPT_LIMIT,
	OPT_DEPTH,
	OPT_SORT,
	OPT_IMAGE,
	OPT_EXACT,
	OPT_FULL_NAMES,
	OPT_COLOR,
	OPT_NO_PAGER,
	OPT_FOLLOW,
	OPT_INTERVAL,
	OPT_HELP,
};

static const struct args_option options[] = {
	{OPT_SECTION, 's', "section", "NAMES", "show these sections (below), separated by commas"},
	{OPT_TREE, 't', "tree", NULL, "the call tree, from the root down"},
	{OPT_BOTTOM_UP, 'b', "bottom-up", NULL, "the call tree, from the allocations up"},
	{OPT_FUNCTION, 'f', "function", "NAME", "one function: callers, callees, lines"},
	{OPT_GROUP, 'g', "group", "KIND",
	 "by function, line, package, module, allocator, heap, tag or process"},
	{OPT_BY, 0, "by", "KIND", "the same as --group"},
	{OPT_STACKS, 0, "stacks", NULL, "figures of every stack, one per line"},
	{OPT_SYMBOLS, 0, "symbols", NULL, "modules without names or lines, and what helps"},
	{OPT_GROWTH, 0, "growth", NULL, "stacks that grow, and when the memory is full"},
	{OPT_LIMIT_BYTES, 0, "limit-bytes", "SIZE",
	 "with --growth: this much memory, not the cgroup's or machine's"},
	{OPT_FROM, 0, "from", "TIME", "from here on: 1.5s, 250ms, 40%, peak, a mark's name"},
	{OPT_TO, 0, "to", "TIME", "up to here"},
	{OPT_AT, 0, "at", "TIME", "what was live at this moment"},
	{OPT_MODE, 'm', "mode", "MODE", "live, allocated, freed, surviving or peak"},
	{OPT_FILTER, 'F', "filter", "EXPR", "only these blocks: 'function:parse and size>=4K'"},
	{OPT_FOLD, 0, "fold", "KINDS", "leave out frames: allocator, runtime, noise ..."},
	{OPT_KINDS, 0, "kinds", "FILE", "rules of kinds of frames (docs/kinds.md)"},
	{OPT_SUPPRESSIONS, 0, "suppressions", "FILE", "unfreed blocks that are accepted"},
	{OPT_NO_BUILTIN, 0, "no-builtin-suppressions", NULL,
	 "also list as unfreed what the C library keeps"},
	{OPT_LIMIT, 'n', "limit", "N", "show N entries of each kind; 0 shows all"},
	{OPT_DEPTH, 'd', "depth", "N", "show N frames of a stack or tree; 0 shows all"},
	{OPT_SORT, 0, "sort", "KEY", "bytes, count, average, self, temporary or name"},
	{OPT_IMAGE, 'i', "image", "N|all", "after execs: which program, from 0; else the last"},
	{OPT_EXACT, 'e', "exact", NULL, "all digits of every figure"},
	{OPT_FULL_NAMES, 0, "full-names", NULL, "template arguments and generics, nothing cut"},
	{OPT_JSON, 'j', "json", NULL, "print JSON (docs/report-json.md describes it)"},
	{OPT_CSV, 0, "csv", NULL, "print one section as CSV"},
	{OPT_COLOR, 0, "color", "WHEN", "auto, always or never"},
	{OPT_NO_PAGER, 0, "no-pager", NULL, "never show long output through $PAGER"},
	{OPT_FOLLOW, 0, "follow", NULL, "show again as the trace is written, until its end"},
	{OPT_INTERVAL, 0, "interval", "TIME", "how often --follow looks (1s)"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};
enum { OPTION_COUNT = sizeof options / sizeof options[0] };

void report_print_help(void)
{
	puts("Usage: tidemark report [OPTIONS] FILE\n"
	     "\n"
	     "Prints what a trace says about the heap: totals, and the sites that hold the\n"
	     "peak, left blocks unfreed, allocated most often and allocated for a moment only,\n"
	     "with their stacks. 'Unfreed' is what was live at the end; that alone is no leak.\n"
	     "\n"
	     "Options:");
	args_print_options(options, OPTION_COUNT);
	foreign_print_options();
	puts("\nSections:");
	const struct report_section *section;
	for (size_t i = 0; (section = report_section_at(i)); i++)
		printf("  %-13s %s\n", section->name, section->help);
}

static bool add_section(struct report_options *o, const char *name)
{
	const struct report_section *section = report_section_find(name);
	if (section) {
		for (size_t i = 0; i < o->section_count; i++)
			if (o->sections[i] == section)
				return true;
		o->sections[o->section_count++] = section;
		return true;
	}
	fprintf(stderr, "tidemark report: there is no section '%s'", name);
	if (name[0] >= '0' && name[0] <= '9')
		fputs("; '--image N' chooses a program of the process", stderr);
	for (size_t i = 0; (section = report_section_at(i)); i++)
		if (args_is_near(name, section->name))
			fprintf(stderr, "; did you mean '%s'", section->name);
	fputs(". Type 'tidemark help report' for all sections.\n", stderr);
	return false;
}

static bool add_named(void *ctx, const char *name)
{
	struct report_options *o = ctx;
	const struct report_section *section;
	if (strcmp(name, "all") != 0)
		return add_section(o, name);
	for (size_t i = 0; (section = report_section_at(i)); i++)
		if (strcmp(section->name, "callers") != 0)
			add_section(o, section->name);
	return true;
}

static bool parse_group(const struct args *args, struct report_options *o, const char *option,
			const char *value)
{
	static const char *const groups[] = {"function", "line", "package", "module", "allocator",
					     "heap",     "tag",  "process", NULL};
	static const char *const names[] = {"functions",  "lines", "packages", "modules",
					    "allocators", "heaps", "tags",     "processes"};
	int index = values_word(groups, value);
	if (index < 0)
		return values_fail(
			args, option,
			"function, line, package, module, allocator, heap, tag or process", value);
	return add_section(o, names[index]);
}

static bool parse_sort(const struct args *args, struct report_options *o, const char *value)
{
	static const char *const keys[] = {"bytes",     "count", "average", "self",
					   "temporary", "name",  NULL};
	int index = values_word(keys, value);
	if (index < 0)
		return values_fail(args, "--sort", "bytes, count, average, self, temporary or name",
				   value);
	o->sort = (enum report_sort)(index + 1);
	return true;
}

static bool parse_limit_bytes(const struct args *args, struct report_options *o, const char *value)
{
	struct tm_error err = {0};
	if (!units_parse_bytes(value, &o->limit_bytes, &err) && o->limit_bytes)
		return true;
	return values_fail(args, "--limit-bytes", "a size as 512M or 2GiB", value);
}

static bool parse_interval(const struct args *args, struct report_options *o, const char *value)
{
	struct tm_error err = {0};
	if (!units_parse_duration(value, &o->interval_ns, &err) && o->interval_ns >= 10000000)
		return true;
	return values_fail(args, "--interval", "a duration from 10ms on, such as 500ms or 2s",
			   value);
}

static bool parse_image(const struct args *args, struct report_options *o, const char *value)
{
	o->has_image = true;
	o->all_images = !strcmp(value, "all");
	return o->all_images || args_number(args, "--image", value, UINT32_MAX, &o->image);
}

/* Options without a value. */
static bool set_flag(struct report_options *o, int id)
{
	switch (id) {
	case OPT_JSON:
		o->json = true;
		return true;
	case OPT_CSV:
		o->csv = true;
		return true;
	case OPT_TREE:
		return add_section(o, "tree");
	case OPT_BOTTOM_UP:
		return add_section(o, "bottom-up");
	case OPT_STACKS:
		o->stacks = true;
		return true;
	case OPT_SYMBOLS:
		return add_section(o, "symbols");
	case OPT_GROWTH:
		return add_section(o, "growth");
	case OPT_EXACT:
		o->exact = true;
		return true;
	case OPT_FULL_NAMES:
		o->full_names = true;
		return true;
	case OPT_NO_PAGER:
		o->no_pager = true;
		return true;
	case OPT_NO_BUILTIN:
		o->suppressed.no_builtin = true;
		return true;
	case OPT_FOLLOW:
		o->follow = true;
		return true;
	case OPT_HELP:
		o->help = true;
		return true;
	}
	return false;
}

static bool set_value(const struct args *args, struct report_options *o, int id, const char *value)
{
	switch (id) {
	case ARGS_WORD:
		return values_trace(args, value, &o->path);
	case OPT_SECTION:
		return values_names(value, add_named, o);
	case OPT_FUNCTION:
		o->function = value;
		return add_section(o, "callers");
	case OPT_GROUP:
		return parse_group(args, o, "--group", value);
	case OPT_BY:
		return parse_group(args, o, "--by", value);
	case OPT_FROM:
		o->from = value;
		return true;
	case OPT_TO:
		o->to = value;
		return true;
	case OPT_AT:
		o->at = value;
		return true;
	case OPT_MODE:
		return values_mode(args, value, &o->mode);
	case OPT_FILTER:
		o->filter = value;
		return values_filter(args, value, &o->parsed);
	case OPT_FOLD:
		return values_fold(args, value, &o->fold);
	case OPT_KINDS:
		o->kinds = value;
		return true;
	case OPT_SUPPRESSIONS:
		return suppressed_take_file(&o->suppressed, "report", value);
	case OPT_LIMIT:
		o->has_limit = true;
		return args_number(args, "--limit", value, UINT32_MAX, &o->limit);
	case OPT_DEPTH:
		o->has_depth = true;
		return args_number(args, "--depth", value, UINT32_MAX, &o->depth);
	case OPT_SORT:
		return parse_sort(args, o, value);
	case OPT_IMAGE:
		return parse_image(args, o, value);
	case OPT_COLOR:
		return values_color(args, value, &o->color);
	case OPT_INTERVAL:
		return parse_interval(args, o, value);
	case OPT_LIMIT_BYTES:
		return parse_limit_bytes(args, o, value);
	}
	return set_flag(o, id);
}

/* What does not go together. */
static bool check(const struct args *args, const struct report_options *o)
{
	if (!o->path)
		return values_complain(args, "which trace? Name a file, as in 'tidemark report "
					     "tidemark.program.1234.tide'.");
	if (o->at && (o->from || o->to))
		return values_complain(
			args, "'--at' is a moment, '--from' and '--to' are a range: give one or "
			      "the other.");
	if (o->json && o->csv)
		return values_complain(args, "'--json' and '--csv' at once: give one of them.");
	if (o->csv && o->section_count > 1)
		return values_complain(args, "'--csv' prints one table: name one section.");
	if (o->csv && o->all_images)
		return values_complain(args,
				       "'--csv' prints one table: choose one image, not all.");
	if (o->follow && o->all_images)
		return values_complain(args,
				       "'--follow' shows the last image: leave '--image all' out.");
	if ((o->sort == REPORT_SORT_AVERAGE || o->sort == REPORT_SORT_SELF ||
	     o->sort == REPORT_SORT_NAME))
		for (size_t i = 0; i < o->section_count; i++)
			if (!strcmp(o->sections[i]->name, "tree") ||
			    !strcmp(o->sections[i]->name, "bottom-up"))
				return values_complain(
					args, "trees are sorted by bytes, count or temporary.");
	return true;
}

void report_settle_moment(struct report_options *o)
{
	/* The peak is an event, and a moment is a microsecond, which may hold more of them. */
	if (!o->at || strcmp(o->at, "peak") != 0)
		return;
	o->at = NULL;
	if (!o->mode)
		o->mode = view_mode_find("peak");
}

bool report_parse(int argc, char **argv, struct report_options *ret_options)
{
	struct args args = ARGS_OF("report", argc, argv, options);
	args.shared = &foreign_args;
	const char *value = NULL;
	int id;
	*ret_options = (struct report_options){.interval_ns = 1000000000};
	while ((id = args_next(&args, &value)) != ARGS_END) {
		if (id == ARGS_ERROR || !set_value(&args, ret_options, id, value))
			return false;
		if (ret_options->help)
			return true;
	}
	if (!check(&args, ret_options))
		return false;
	report_settle_moment(ret_options);
	return true;
}

void report_options_done(struct report_options *o)
{
	o->parsed = filter_free(o->parsed);
}

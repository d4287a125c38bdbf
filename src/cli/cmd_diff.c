/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark diff A B: what changed between two recordings, or two ranges of one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/commands.h"
#include "cli/comparison.h"
#include "cli/fold.h"
#include "cli/foreign.h"
#include "cli/traces.h"
#include "cli/values.h"

enum { LIMIT_TEXT = 10, LIMIT_JSON = 20, FRAMES_TEXT = 12 };

enum {
	OPT_SECTION = 1,
	OPT_FROM,
	OPT_TO,
	OPT_FROM_A,
	OPT_TO_A,
	OPT_FROM_B,
	OPT_TO_B,
	OPT_IMAGE_A,
	OPT_IMAGE_B,
	OPT_FILTER,
	OPT_FOLD,
	OPT_SCALE,
	OPT_SORT,
	OPT_LIMIT,
	OPT_DEPTH,
	OPT_JSON,
	OPT_COLOR,
	OPT_HELP,
};

static const struct args_option options[] = {
	{OPT_SECTION, 's', "section", "NAMES", "show these sections (below), separated by commas"},
	{OPT_FROM, 0, "from", "TIME", "of both: from here on: 1.5s, 40%, peak, a mark's name"},
	{OPT_TO, 0, "to", "TIME", "of both: up to here"},
	{OPT_FROM_A, 0, "from-a", "TIME", "the same of A alone"},
	{OPT_TO_A, 0, "to-a", "TIME", "the same of A alone"},
	{OPT_FROM_B, 0, "from-b", "TIME", "the same of B alone"},
	{OPT_TO_B, 0, "to-b", "TIME", "the same of B alone"},
	{OPT_IMAGE_A, 0, "image-a", "N", "after execs: which program of A, from 0; else the last"},
	{OPT_IMAGE_B, 0, "image-b", "N", "the same of B"},
	{OPT_FILTER, 'F', "filter", "EXPR", "only these blocks: 'function:parse and size>=4K'"},
	{OPT_FOLD, 0, "fold", "KINDS", "leave out frames: allocator, runtime, noise ..."},
	{OPT_SCALE, 0, "scale", "BY", "time or allocations: as if A had run as long as B"},
	{OPT_SORT, 0, "sort", "KEY", "change, growth, relative, before, after or name"},
	{OPT_LIMIT, 'n', "limit", "N", "show N entries of each section; 0 shows all"},
	{OPT_DEPTH, 'd', "depth", "N", "show N frames of a stack; 0 shows all"},
	{OPT_JSON, 'j', "json", NULL, "print JSON (docs/diff.md describes it)"},
	{OPT_COLOR, 0, "color", "WHEN", "auto, always or never"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};
enum { OPTION_COUNT = sizeof options / sizeof options[0] };

enum scale { SCALE_NONE, SCALE_TIME, SCALE_ALLOCATIONS };

struct request {
	struct side_options a, b;
	struct filter *filter;
	enum scale scale;
	uint64_t limit, depth;
	bool has_limit, json, help;
	enum out_color color;
	struct comparison comparison;
};

static void print_help(void)
{
	puts("Usage: tidemark diff [OPTIONS] A B\n"
	     "       tidemark diff [OPTIONS] --to-a TIME --from-b TIME A\n"
	     "\n"
	     "Shows what changed from trace A to trace B, or between two ranges of one trace:\n"
	     "what is new, gone, grown and shrunk. Stacks are matched by the names of their\n"
	     "functions, so two builds compare as well as two runs of one.\n"
	     "\n"
	     "Options:");
	args_print_options(options, OPTION_COUNT);
	foreign_print_options();
	puts("\nSections:");
	const struct comparison_section *section;
	for (size_t i = 0; (section = comparison_section_at(i)); i++)
		printf("  %-13s %s\n", section->name, section->help);
}

static bool add_section(struct comparison *c, const char *name)
{
	const struct comparison_section *section = comparison_section_find(name);
	if (!section) {
		fprintf(stderr,
			"tidemark diff: there is no section '%s'. Type 'tidemark help diff' for "
			"all sections.\n",
			name);
		return false;
	}
	for (size_t i = 0; i < c->section_count; i++)
		if (c->sections[i] == section)
			return true;
	c->sections[c->section_count++] = section;
	return true;
}

static bool add_named(void *ctx, const char *name)
{
	struct comparison *c = ctx;
	const struct comparison_section *section;
	if (strcmp(name, "all") != 0)
		return add_section(c, name);
	for (size_t i = 0; (section = comparison_section_at(i)); i++)
		add_section(c, section->name);
	return true;
}

static bool take_sort(const struct args *args, struct request *request, const char *value)
{
	static const char *const words[] = {"change", "growth", "relative", "before",
					    "after",  "name",   NULL};
	int found = values_word(words, value);
	if (found < 0)
		return values_fail(args, "--sort",
				   "change, growth, relative, before, after or name", value);
	request->comparison.sort = (enum diff_sort)found;
	return true;
}

static bool take_scale(const struct args *args, struct request *request, const char *value)
{
	static const char *const words[] = {"none", "time", "allocations", NULL};
	int found = values_word(words, value);
	if (found < 0)
		return values_fail(args, "--scale", "time, allocations or none", value);
	request->scale = (enum scale)found;
	return true;
}

static bool take_image(struct args *args, struct side_options *side, const char *option,
		       const char *value)
{
	side->has_section = true;
	return args_number(args, option, value, UINT32_MAX, &side->section);
}

static bool take_word(struct request *request, const char *word)
{
	const char **place = !request->a.path ? &request->a.path : &request->b.path;
	if (*place) {
		fprintf(stderr, "tidemark diff: '%s' is one trace too many: name A and B.\n", word);
		return false;
	}
	*place = word;
	return true;
}

static bool take_other(struct args *args, struct request *request, int id, const char *value)
{
	switch (id) {
	case OPT_SECTION:
		return values_names(value, add_named, &request->comparison);
	case OPT_IMAGE_A:
		return take_image(args, &request->a, "--image-a", value);
	case OPT_IMAGE_B:
		return take_image(args, &request->b, "--image-b", value);
	case OPT_FILTER:
		return values_filter(args, value, &request->filter);
	case OPT_FOLD:
		request->a.fold = request->b.fold = 0;
		if (!values_fold(args, value, &request->a.fold))
			return false;
		request->b.fold = request->a.fold;
		return true;
	case OPT_SCALE:
		return take_scale(args, request, value);
	case OPT_SORT:
		return take_sort(args, request, value);
	case OPT_LIMIT:
		request->has_limit = true;
		return args_number(args, "--limit", value, UINT32_MAX, &request->limit);
	case OPT_DEPTH:
		return args_number(args, "--depth", value, UINT32_MAX, &request->depth);
	case OPT_COLOR:
		return values_color(args, value, &request->color);
	default:
		return take_word(request, value);
	}
}

static bool take(struct args *args, struct request *request, int id, const char *value)
{
	switch (id) {
	case OPT_FROM:
		request->a.from = request->b.from = value;
		break;
	case OPT_TO:
		request->a.to = request->b.to = value;
		break;
	case OPT_FROM_A:
		request->a.from = value;
		break;
	case OPT_TO_A:
		request->a.to = value;
		break;
	case OPT_FROM_B:
		request->b.from = value;
		break;
	case OPT_TO_B:
		request->b.to = value;
		break;
	case OPT_JSON:
		request->json = true;
		break;
	case OPT_HELP:
		request->help = true;
		break;
	default:
		return take_other(args, request, id, value);
	}
	return true;
}

/* One trace with two ranges is a diff, too; one trace with itself is not. */
static bool check_paths(struct request *request)
{
	const struct side_options *a = &request->a, *b = &request->b;
	bool ranges = a->from != b->from || a->to != b->to || a->has_section || b->has_section;
	if (!a->path || (!b->path && !ranges)) {
		fputs(a->path ? "tidemark diff: name a second trace, or two ranges of this one, as "
				"in "
				"'tidemark diff --to-a 10s --from-b 10s FILE'.\n"
			      : "tidemark diff: which traces? Name two, as in 'tidemark diff "
				"old.tide "
				"new.tide'.\n",
		      stderr);
		return false;
	}
	if (!b->path)
		request->b.path = a->path;
	return true;
}

static bool parse(int argc, char **argv, struct request *request)
{
	struct args args = ARGS_OF("diff", argc, argv, options);
	args.shared = &foreign_args;
	const char *value = NULL;
	int id;
	while ((id = args_next(&args, &value)) != ARGS_END)
		if (id == ARGS_ERROR || !take(&args, request, id, value))
			return false;
	return request->help || check_paths(request);
}

static void choose_sections(struct comparison *c)
{
	const struct comparison_section *section;
	if (c->section_count)
		return;
	for (size_t i = 0; (section = comparison_section_at(i)); i++)
		if (section->usual)
			c->sections[c->section_count++] = section;
}

static void set_scale(struct request *request)
{
	struct comparison *c = &request->comparison;
	double before = 0, after = 0;
	c->scale = 1;
	if (request->scale == SCALE_TIME) {
		before = (double)(c->before.to_ns - c->before.from_ns);
		after = (double)(c->after.to_ns - c->after.from_ns);
		c->scale_words = "time";
	} else if (request->scale == SCALE_ALLOCATIONS) {
		before = (double)c->before.sum.of[VIEW_ALLOCATIONS];
		after = (double)c->after.sum.of[VIEW_ALLOCATIONS];
		c->scale_words = "allocations";
	}
	if (before > 0 && after > 0)
		c->scale = after / before;
	if (c->scale != 1)
		diff_scale(c->diff, c->scale);
}

static int load(struct request *request, struct tm_error *err)
{
	struct comparison *c = &request->comparison;
	unsigned want = 0;
	choose_sections(c);
	for (size_t i = 0; i < c->section_count; i++)
		want |= c->sections[i]->want;
	request->a.want = request->b.want = want;
	request->a.filter = request->b.filter = request->filter;
	int code = side_open(&c->before, &request->a, err);
	if (!code)
		code = side_open(&c->after, &request->b, err);
	if (!code)
		code = diff_new(c->before.data, c->after.data, &c->diff, err);
	if (!code)
		set_scale(request);
	return code;
}

static int print_json(const struct comparison *c, struct tm_error *err)
{
	struct json json = {.out = &c->out->text, .pretty = true};
	int code = 0;
	json_begin_object(&json, NULL);
	for (size_t i = 0; i < c->section_count && !code; i++) {
		const struct side *side;
		if (comparison_unknown(c, c->sections[i], &side))
			json_null(&json, c->sections[i]->name);
		else
			code = c->sections[i]->json(c, c->sections[i], &json, err);
	}
	json_end(&json);
	text_put_char(&c->out->text, '\n');
	return code;
}

static void print_unknown(const struct comparison *c, const struct comparison_section *section,
			  const struct side *side, const char *why)
{
	struct text *text = &c->out->text;
	text_print(text, "%s'%s' is not known: ", text->length ? "\n" : "", section->name);
	out_name(c->out, side->path, 0);
	text_print(text, ": %s.\n", why);
}

static int print_text(const struct comparison *c, struct tm_error *err)
{
	int code = 0;
	size_t before = c->out->text.length;
	for (size_t i = 0; i < c->section_count && !code; i++) {
		const struct side *side;
		const char *why = comparison_unknown(c, c->sections[i], &side);
		if (why)
			print_unknown(c, c->sections[i], side, why);
		else
			code = c->sections[i]->text(c, c->sections[i], err);
	}
	if (!code && c->out->text.length == before)
		text_put(&c->out->text, "Nothing changed.\n");
	return code;
}

static int run(struct request *request, struct out *out, struct tm_error *err)
{
	struct comparison *c = &request->comparison;
	size_t usual = request->json ? LIMIT_JSON : LIMIT_TEXT;
	c->limit = !request->has_limit ? usual : request->limit ? (size_t)request->limit : SIZE_MAX;
	c->frames = request->depth ? (unsigned)request->depth : FRAMES_TEXT;
	c->depth = request->depth < UINT32_MAX ? (unsigned)request->depth : 0;
	c->out = out;
	int code = load(request, err);
	if (!code)
		code = request->json ? print_json(c, err) : print_text(c, err);
	diff_free(c->diff);
	side_close(&c->before);
	side_close(&c->after);
	return code;
}

int cmd_diff(int argc, char **argv)
{
	struct request request = {0};
	struct tm_error err = {0};
	struct out out;
	if (!parse(argc, argv, &request)) {
		filter_free(request.filter);
		return 2;
	}
	if (request.help) {
		print_help();
		return 0;
	}
	out_init(&out, request.color);
	int code = run(&request, &out, &err);
	filter_free(request.filter);
	if (!code)
		return out_finish(&out);
	text_done(&out.text);
	traces_complain("diff", &err);
	return code == -EINVAL ? 2 : 1;
}

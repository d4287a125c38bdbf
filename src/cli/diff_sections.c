/* SPDX-License-Identifier: Apache-2.0 */
/* The table of sections of `tidemark diff`, and the totals. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/comparison.h"
#include "trace/weight.h"
#include "views/origin.h"

#define FACES(name) .text = comparison_##name##_text, .json = comparison_##name##_json

static const struct comparison_section sections[] = {
	{.name = "summary", .help = "totals of both sides", .usual = true, FACES(summary)},
	{.name = "peak",
	 .help = "sites by their share of the peak",
	 .figure = VIEW_PEAK_BYTES,
	 .usual = true,
	 FACES(sites)},
	{.name = "unfreed",
	 .help = "sites by what is live at the end",
	 .figure = VIEW_UNFREED_BYTES,
	 .usual = true,
	 FACES(sites)},
	{.name = "allocations",
	 .help = "sites by number of allocations",
	 .figure = VIEW_ALLOCATIONS,
	 .usual = true,
	 FACES(sites)},
	{.name = "temporary",
	 .help = "sites by temporary allocations",
	 .figure = VIEW_TEMPORARY,
	 .usual = true,
	 FACES(sites)},
	{.name = "allocated",
	 .help = "sites by allocated bytes",
	 .figure = VIEW_ALLOCATED_BYTES,
	 FACES(sites)},
	{.name = "freed", .help = "sites by freed bytes", .figure = VIEW_FREED_BYTES, FACES(sites)},
	{.name = "surviving",
	 .help = "sites by what was allocated in the range and lives",
	 .figure = VIEW_SURVIVING_BYTES,
	 FACES(sites)},
	{.name = "functions",
	 .help = "every function, with what is below it",
	 .figure = VIEW_PEAK_BYTES,
	 .view = "functions",
	 FACES(flat)},
	{.name = "lines",
	 .help = "every source line",
	 .figure = VIEW_PEAK_BYTES,
	 .view = "lines",
	 FACES(flat)},
	{.name = "packages",
	 .help = "every package: crate, library, npm package, ...",
	 .figure = VIEW_PEAK_BYTES,
	 .view = "packages",
	 FACES(flat)},
	{.name = "modules",
	 .help = "every executable and shared library",
	 .figure = VIEW_PEAK_BYTES,
	 .view = "modules",
	 FACES(flat)},
	{.name = "allocators",
	 .help = "every entry point: malloc, operator new, ...",
	 .figure = VIEW_ALLOCATIONS,
	 .view = "allocators",
	 FACES(flat)},
	{.name = "heaps",
	 .help = "malloc, and every heap with a name (tidemark.h)",
	 .figure = VIEW_PEAK_BYTES,
	 .view = "heaps",
	 FACES(flat)},
	{.name = "tags",
	 .help = "what threads worked for (tidemark_tag)",
	 .figure = VIEW_PEAK_BYTES,
	 .view = "tags",
	 FACES(flat)},
	{.name = "tree",
	 .help = "call tree from the root down",
	 .figure = VIEW_PEAK_BYTES,
	 FACES(tree)},
	{.name = "bottom-up",
	 .help = "call tree from the allocating functions up",
	 .figure = VIEW_PEAK_BYTES,
	 FACES(tree)},
	{.name = "sizes",
	 .help = "how large blocks are",
	 .want = QUERY_SIZES,
	 .needs = TRACE_UNKNOWN_SIZES,
	 FACES(buckets)},
	{.name = "lifetimes",
	 .help = "how long blocks live",
	 .want = QUERY_LIVES,
	 .needs = TRACE_UNKNOWN_LIFETIMES,
	 FACES(buckets)},
	{.name = "threads",
	 .help = "what threads of the same name did",
	 .want = QUERY_THREADS,
	 .needs = TRACE_UNKNOWN_THREADS,
	 FACES(threads)},
	{.name = "timeline",
	 .help = "the heap over time, side by side",
	 .needs = TRACE_UNKNOWN_TIMES,
	 FACES(timeline)},
};
enum { SECTIONS = sizeof sections / sizeof sections[0] };
_Static_assert((int)SECTIONS <= (int)COMPARISON_SECTIONS_MAX, "room for all of them");

const struct comparison_section *comparison_section_find(const char *name)
{
	for (size_t i = 0; i < SECTIONS; i++)
		if (!strcmp(sections[i].name, name))
			return &sections[i];
	return NULL;
}

const struct comparison_section *comparison_section_at(size_t index)
{
	return index < SECTIONS ? &sections[index] : NULL;
}

const char *comparison_unknown(const struct comparison *c, const struct comparison_section *section,
			       const struct side **ret_side)
{
	bool lists = section->text == comparison_sites_text ||
		     section->text == comparison_flat_text || section->text == comparison_tree_text;
	unsigned needs = section->needs | (lists ? view_figure_needs(section->figure) : 0);
	const char *why = view_unknown_why(c->before.input.meta, needs);
	*ret_side = why ? &c->before : &c->after;
	return why ? why : view_unknown_why(c->after.input.meta, needs);
}

static bool knows(const struct side *side, unsigned bits)
{
	return !view_unknown_why(side->input.meta, bits);
}

static uint64_t scaled(const struct comparison *c, uint64_t value)
{
	double product = (double)value * c->scale + 0.5;
	return c->scale == 1 ? value : product < 1.8e19 ? (uint64_t)product : UINT64_MAX;
}

static struct comparison_value figure_value(const struct comparison *c, const char *key,
					    const char *title, enum view_figure figure)
{
	bool counted = figure <= VIEW_FAILED,
	     is_bytes = view_columns[figure].unit == VIEW_UNIT_BYTES;
	uint64_t before = c->before.sum.of[figure];
	enum view_figure partner = view_columns[figure].partner;
	double scale = counted ? c->scale : 1;
	return (struct comparison_value){
		.key = key,
		.title = title,
		.unit = is_bytes ? VALUE_BYTES : VALUE_COUNT,
		.before_known = knows(&c->before, view_figure_needs(figure)),
		.after_known = knows(&c->after, view_figure_needs(figure)),
		.before = counted ? scaled(c, before) : before,
		.after = c->after.sum.of[figure],
		.before_error = is_bytes ? scale * view_error_bytes(&c->before.input, before,
								    c->before.sum.of[partner])
					 : 0,
		.after_error = is_bytes ? view_error_bytes(&c->after.input, c->after.sum.of[figure],
							   c->after.sum.of[partner])
					: 0,
	};
}

bool comparison_total(const struct comparison *c, size_t index, struct comparison_value *ret)
{
	static const struct {
		const char *key, *title;
		enum view_figure figure;
	} figures[] = {
		{"peak_bytes", "peak", VIEW_PEAK_BYTES},
		{"peak_allocations", "blocks at the peak", VIEW_PEAK_BLOCKS},
		{"unfreed_bytes", "unfreed", VIEW_UNFREED_BYTES},
		{"unfreed_allocations", "unfreed blocks", VIEW_UNFREED_BLOCKS},
		{"allocations", "allocations", VIEW_ALLOCATIONS},
		{"allocated_bytes", "allocated", VIEW_ALLOCATED_BYTES},
		{"temporary_allocations", "temporary", VIEW_TEMPORARY},
		{"frees", "frees", VIEW_FREES},
		{"failed_allocations", "failed", VIEW_FAILED},
	};
	size_t count = sizeof figures / sizeof figures[0];
	const struct model_totals *before = &c->before.totals, *after = &c->after.totals;
	if (index < count) {
		*ret = figure_value(c, figures[index].key, figures[index].title,
				    figures[index].figure);
		return true;
	}
	switch (index - count) {
	case 0:
		*ret = (struct comparison_value){.key = "peak_rss_bytes",
						 .title = "peak RSS, whole run",
						 .unit = VALUE_BYTES,
						 .before_known = before->peak_rss_bytes > 0,
						 .after_known = after->peak_rss_bytes > 0,
						 .before = before->peak_rss_bytes,
						 .after = after->peak_rss_bytes};
		return true;
	case 1:
		*ret = (struct comparison_value){.key = "stacks",
						 .title = "stacks, whole run",
						 .unit = VALUE_COUNT,
						 .before_known = true,
						 .after_known = true,
						 .before = before->stacks,
						 .after = after->stacks};
		return true;
	case 2:
		*ret = (struct comparison_value){
			.key = "duration_ns",
			.title = "time",
			.unit = VALUE_TIME,
			.before_known = knows(&c->before, TRACE_UNKNOWN_TIMES),
			.after_known = knows(&c->after, TRACE_UNKNOWN_TIMES),
			.before = c->before.to_ns - c->before.from_ns,
			.after = c->after.to_ns - c->after.from_ns,
		};
		return true;
	default:
		return false;
	}
}

static struct units_text number_of(const struct comparison_value *value, uint64_t number)
{
	switch (value->unit) {
	case VALUE_BYTES:
		return units_bytes(number);
	case VALUE_COUNT:
		return units_grouped(number);
	case VALUE_TIME:
		break;
	}
	return units_duration(number);
}

static const struct units_text not_known = {"not known"};

struct units_text comparison_before(const struct comparison_value *value)
{
	return value->before_known ? number_of(value, value->before) : not_known;
}

struct units_text comparison_after(const struct comparison_value *value)
{
	return value->after_known ? number_of(value, value->after) : not_known;
}

struct units_text comparison_change(const struct comparison_value *value)
{
	struct units_text out = {"?"};
	if (!value->before_known || !value->after_known)
		return out;
	bool less = value->after < value->before;
	uint64_t size = less ? value->before - value->after : value->after - value->before;
	struct units_text number = number_of(value, size);
	const char *sign = !size ? "" : less ? "-" : "+";
	snprintf(out.text, sizeof out.text, "%s%.*s", sign, (int)sizeof out.text - 2, number.text);
	return out;
}

struct units_text comparison_error(const struct comparison_value *value)
{
	struct units_text out = {""};
	double error = trace_joint_error(value->before_error, value->after_error);
	if (error >= 1 && value->before_known && value->after_known)
		snprintf(out.text, sizeof out.text, " ± %.16s", units_bytes((uint64_t)error).text);
	return out;
}

struct units_text comparison_percent(const struct comparison_value *value)
{
	struct units_text out = {""};
	uint64_t before = value->before, after = value->after;
	if (!value->before_known || !value->after_known)
		return out;
	if (!before && after)
		snprintf(out.text, sizeof out.text, "new");
	else if (before && !after)
		snprintf(out.text, sizeof out.text, "gone");
	else if (before != after)
		snprintf(out.text, sizeof out.text, "%+.1f %%",
			 100.0 * ((double)after - (double)before) / (double)before);
	return out;
}

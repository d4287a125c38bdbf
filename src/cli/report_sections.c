/* SPDX-License-Identifier: Apache-2.0 */
/* The table of sections, and what the options make of them. */
#include "cli/report_sections.h"

#include <stdio.h>
#include <string.h>

#define FACES(faces) \
	.text = report_##faces##_text, .json = report_##faces##_json, .csv = report_##faces##_csv
#define SITES(section, json_key, words, lacks)                                                  \
	{                                                                                       \
		.name = section, .help = words, .view = section, .key = json_key, FACES(sites), \
		.needs = lacks                                                                  \
	}
#define FLAT(section, words)                                                                 \
	{                                                                                    \
		.name = section, .help = words, .view = section, .key = section, FACES(flat) \
	}

static const struct report_section sections[] = {
	{.name = "summary", .help = "totals, memory, the recording itself", FACES(summary)},
	SITES("peak", "top_peak", "sites by their share of the peak", 0),
	SITES("unfreed", "top_unfreed", "sites by what was live at the end", TRACE_UNKNOWN_FREES),
	SITES("allocations", "top_allocations", "sites by number of allocations",
	      TRACE_UNKNOWN_ALLOCATIONS | TRACE_UNKNOWN_COUNTS),
	SITES("temporary", "top_temporary", "sites by temporary allocations",
	      TRACE_UNKNOWN_TEMPORARY),
	SITES("allocated", "top_allocated", "sites by allocated bytes", TRACE_UNKNOWN_ALLOCATIONS),
	SITES("freed", "top_freed", "sites by freed bytes",
	      TRACE_UNKNOWN_ALLOCATIONS | TRACE_UNKNOWN_FREES),
	SITES("surviving", "top_surviving", "sites by what was allocated in the range and lives",
	      0),
	FLAT("functions", "every function, with what is below it"),
	FLAT("lines", "every source line"),
	FLAT("packages", "every package: crate, library, npm package, ..."),
	FLAT("modules", "every executable and shared library"),
	FLAT("allocators", "every entry point: malloc, operator new, ..."),
	FLAT("heaps", "malloc, and every heap with a name (tidemark.h)"),
	FLAT("tags", "what threads worked for (tidemark_tag)"),
	FLAT("processes", "every process of a merged trace"),
	{.name = "tree", .help = "call tree from the root down", .key = "tree", FACES(tree)},
	{.name = "bottom-up",
	 .help = "call tree from the allocating functions up",
	 .key = "bottom_up",
	 FACES(tree)},
	{.name = "callers",
	 .help = "one function (--function), its callers, callees, lines",
	 .key = "callers",
	 FACES(callers)},
	{.name = "sizes",
	 .help = "how large blocks are, and who makes them",
	 .key = "sizes",
	 .want = QUERY_SIZES,
	 .needs = TRACE_UNKNOWN_SIZES,
	 FACES(sizes)},
	{.name = "lifetimes",
	 .help = "how long blocks live, and who makes them",
	 .key = "lifetimes",
	 .want = QUERY_LIVES,
	 .needs = TRACE_UNKNOWN_LIFETIMES | TRACE_UNKNOWN_TIMES,
	 FACES(sizes)},
	{.name = "threads",
	 .help = "what each thread did",
	 .key = "thread_list",
	 .want = QUERY_THREADS,
	 .needs = TRACE_UNKNOWN_THREADS,
	 FACES(threads)},
	{.name = "symbols",
	 .help = "modules without names or lines, and what helps",
	 .key = "symbols",
	 FACES(symbols)},
	{.name = "mappings",
	 .help = "whose mapped memory is: V8's heap, Python's arenas, ...",
	 .key = "mappings",
	 FACES(mappings)},
	{.name = "growth",
	 .help = "stacks that grow, and when the memory is full",
	 .key = "growth",
	 .needs = TRACE_UNKNOWN_TIMES,
	 FACES(growth)},
	{.name = "timeline",
	 .help = "the heap over time, as a plot",
	 .key = "timeline",
	 .needs = TRACE_UNKNOWN_TIMES,
	 FACES(timeline)},
};
enum { SECTIONS = sizeof sections / sizeof sections[0] };
_Static_assert((int)SECTIONS <= (int)REPORT_SECTIONS_MAX, "room for all of them");

const struct report_section *report_section_find(const char *name)
{
	for (size_t i = 0; i < SECTIONS; i++)
		if (!strcmp(sections[i].name, name))
			return &sections[i];
	return NULL;
}

const struct report_section *report_section_at(size_t index)
{
	return index < SECTIONS ? &sections[index] : NULL;
}

/* The sites that a mode is about. */
static const struct report_section *section_of_mode(const struct view_mode *mode)
{
	return report_section_find(!strcmp(mode->name, "live") ? "unfreed" : mode->name);
}

size_t report_chosen(const struct report *report, const struct report_section **ret_sections)
{
	static const char *const usual[] = {"summary", "peak", "unfreed", "allocations",
					    "temporary"};
	const struct report_options *options = report->options;
	size_t count = options->section_count;
	if (count) {
		memcpy(ret_sections, options->sections, count * sizeof *ret_sections);
		return count;
	}
	if (options->csv) {
		ret_sections[0] = report_section_find("functions");
		return 1;
	}
	if (options->mode || options->at) {
		ret_sections[0] = report_section_find("summary");
		ret_sections[1] = section_of_mode(report_mode(report));
		return 2;
	}
	for (; count < sizeof usual / sizeof usual[0]; count++)
		ret_sections[count] = report_section_find(usual[count]);
	return count;
}

size_t report_limit(const struct report *report, size_t usual)
{
	const struct report_options *options = report->options;
	if (!options->has_limit)
		return usual;
	return options->limit ? (size_t)options->limit : SIZE_MAX;
}

size_t report_depth(const struct report *report, size_t usual)
{
	const struct report_options *options = report->options;
	if (!options->has_depth)
		return usual;
	return options->depth ? (size_t)options->depth : SIZE_MAX;
}

const struct view_mode *report_mode(const struct report *report)
{
	if (report->options->mode)
		return report->options->mode;
	return view_mode_find(report->options->at ? "live" : "peak");
}

struct view report_view(const struct report *report, const struct view *view,
			enum view_figure order)
{
	struct view made = *view;
	enum view_figure partner = view_columns[order].partner;
	bool counts = view_columns[order].unit == VIEW_UNIT_COUNT;
	made.order = order;
	made.sort = VIEW_SORT_FIGURE;
	switch (report->options->sort) {
	case REPORT_SORT_DEFAULT:
		break;
	case REPORT_SORT_BYTES:
		made.order = counts ? partner : order;
		break;
	case REPORT_SORT_COUNT:
		made.order = counts ? order : partner;
		break;
	case REPORT_SORT_TEMPORARY:
		made.order = VIEW_TEMPORARY;
		break;
	case REPORT_SORT_AVERAGE:
		made.sort = VIEW_SORT_AVERAGE;
		break;
	case REPORT_SORT_SELF:
		made.sort = VIEW_SORT_SELF;
		break;
	case REPORT_SORT_NAME:
		made.sort = VIEW_SORT_NAME;
		break;
	}
	return made;
}

/* ---- words ---- */

bool report_is_attached(const struct report *report)
{
	const char *source = report->input.meta->source;
	return source && !strncmp(source, "attach", 6);
}

bool report_is_imported(const struct report *report)
{
	const char *source = report->input.meta->source;
	return source && !strncmp(source, "import:", 7);
}

const char *report_live_words(const struct report *report)
{
	const struct report_options *options = report->options;
	uint32_t cause = report->input.end->cause;
	if (options->at)
		return "live then";
	if (options->to)
		return "live at the end of the range";
	if (cause == TRACE_END_DETACHED)
		return "live at detach";
	if (cause == TRACE_END_UNKNOWN || cause == TRACE_END_UNSAID ||
	    cause == TRACE_END_COLLECTOR_LOST)
		return "live at the last event";
	if (report_is_attached(report) || cause == TRACE_END_STOPPED ||
	    cause == TRACE_END_AGENT_OFF || cause == TRACE_END_DISK_FULL ||
	    cause == TRACE_END_DISK_ERROR || cause == TRACE_END_ROTATED)
		return "live at the end of the recording";
	return "unfreed";
}

const char *report_figure_title(const struct report *report, enum view_figure figure, bool one)
{
	const char *live = report_live_words(report);
	bool blocks = figure == VIEW_UNFREED_BLOCKS;
	if ((!blocks && figure != VIEW_UNFREED_BYTES) || !strcmp(live, "unfreed"))
		return one ? view_columns[figure].one : view_columns[figure].title;
	static const struct {
		const char *live, *one, *many;
	} words[] = {
		{"live then", "block live then", "blocks live then"},
		{"live at detach", "block live at detach", "blocks live at detach"},
	};
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (!strcmp(words[i].live, live))
			return !blocks ? live : one ? words[i].one : words[i].many;
	return !blocks ? "live at the end" : one ? "live block" : "live blocks";
}

const char *report_order_words(const struct report *report, enum view_figure order)
{
	switch (order) {
	case VIEW_TEMPORARY:
		return "temporary allocations";
	case VIEW_ALLOCATIONS:
		return "number of allocations";
	case VIEW_FREES:
		return "number of frees";
	case VIEW_PEAK_BLOCKS:
		return "number of blocks at the peak";
	case VIEW_UNFREED_BLOCKS:
		return "number of live blocks at the end";
	case VIEW_SURVIVING_BLOCKS:
		return "number of surviving blocks";
	default:
		break;
	}
	if (order == VIEW_UNFREED_BYTES && !strcmp(report_live_words(report), "live at detach"))
		return "what was live at detach";
	if (order == VIEW_UNFREED_BYTES && report->options->at)
		return "what was live then";
	for (size_t i = 0; i < view_mode_count; i++)
		if (view_modes[i].bytes == order)
			return view_modes[i].what;
	return view_columns[order].title;
}

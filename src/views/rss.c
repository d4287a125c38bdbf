/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the resident set was made of at its peak, and, when the recorded blocks
 * explain little of it, who probably has the rest.
 */
#include "views/rss.h"

#include <string.h>

#include "views/data.h"

/* Below this a program's start-up memory decides, and there is nothing to explain. */
#define WORTH_EXPLAINING_BYTES (16ull << 20)

struct suspect {
	const char *module;   /* beginning of a module's file name, or NULL */
	const char *function; /* a function that only such programs have, or NULL */
	const char *cause;
	const char *advice;
};

static const struct suspect suspects[] = {
	{.module = "node",
	 .cause = "V8 keeps the JavaScript heap in mappings of its own, not in malloc.",
	 .advice = "Look at the native part here, and at the JavaScript heap with node "
		   "--heap-prof or --inspect."},
	{.module = "libnode.so",
	 .cause = "V8 keeps the JavaScript heap in mappings of its own, not in malloc.",
	 .advice = "Look at the native part here, and at the JavaScript heap with node "
		   "--heap-prof or --inspect."},
	{.module = "python",
	 .cause = "Python serves small objects from arenas of its own.",
	 .advice = "Record again with PYTHONMALLOC=malloc in the environment."},
	{.module = "libpython",
	 .cause = "Python serves small objects from arenas of its own.",
	 .advice = "Record again with PYTHONMALLOC=malloc in the environment."},
	{.module = "libjvm.so",
	 .cause = "The Java heap is a mapping of its own, not malloc.",
	 .advice = "Look at the native part here, and at the Java heap with jcmd or a heap dump."},
	{.function = "NimMain",
	 .cause = "Nim serves objects from an allocator of its own.",
	 .advice = "Build with -d:useMalloc and record again."},
};

static const struct suspect attached = {
	.cause = "The recording was attached late: blocks allocated before it are not known.",
	.advice = "Start the program with 'tidemark run' to record it from its beginning."};
static const struct suspect own_mappings = {
	.cause =
		"The program maps memory itself: probably it has an allocator or pools of its own.",
	.advice = "Build it with the allocator of the system, or let its allocator announce its "
		  "blocks."};
static const struct suspect unknown = {
	.cause = "Probably an allocator that is linked into the program serves its blocks.",
	.advice = "Build it with the allocator of the system (malloc of libc) and record again."};

static bool has_module(const struct view_data *data, const char *prefix)
{
	for (size_t i = 1; i < data->input.module_count; i++) {
		const char *path = data->input.modules[i].path;
		if (path && !strncmp(view_module_name(path), prefix, strlen(prefix)))
			return true;
	}
	return false;
}

static bool has_function(const struct view_data *data, const char *name)
{
	for (size_t i = 0; i < data->names.function_count; i++) {
		const char *function = data->names.functions[i].function;
		if (function && !strcmp(function, name))
			return true;
	}
	return false;
}

static const struct suspect *find_suspect(const struct view_data *data, const struct view_rss *rss)
{
	const char *source = data->input.meta->source;
	if (source && !strncmp(source, "attach", 6))
		return &attached;
	for (size_t i = 0; i < sizeof suspects / sizeof suspects[0]; i++)
		if (suspects[i].module ? has_module(data, suspects[i].module)
				       : has_function(data, suspects[i].function))
			return &suspects[i];
	uint64_t unexplained = rss->anonymous_bytes - rss->explained_bytes;
	return rss->mapped_bytes >= unexplained / 2 ? &own_mappings : &unknown;
}

void view_rss(const struct view_data *data, struct view_rss *ret_rss)
{
	struct model_totals totals;
	model_totals(data->input.model, &totals);
	struct view_rss rss = {
		.known = totals.peak_rss_bytes > 0,
		.rss_bytes = totals.peak_rss_bytes,
		.time_ns = totals.peak_rss_time_ns,
		.heap_bytes = totals.rss_heap_bytes,
		.mapped_bytes = totals.rss_mapped_bytes,
		.agent_bytes = totals.rss_agent_bytes,
	};
	rss.rest_bytes =
		(int64_t)(rss.rss_bytes - rss.heap_bytes - rss.mapped_bytes - rss.agent_bytes);
	if (totals.rss_anon_bytes > rss.agent_bytes)
		rss.anonymous_bytes = totals.rss_anon_bytes - rss.agent_bytes;
	/* What was freed before stays resident while the allocator keeps it. */
	uint64_t recorded = rss.heap_bytes;
	if (totals.peak_time_ns <= rss.time_ns && totals.peak_bytes > recorded)
		recorded = totals.peak_bytes;
	rss.explained_bytes = recorded < rss.anonymous_bytes ? recorded : rss.anonymous_bytes;
	if (rss.anonymous_bytes >= WORTH_EXPLAINING_BYTES &&
	    rss.explained_bytes < rss.anonymous_bytes / 2) {
		const struct suspect *suspect = find_suspect(data, &rss);
		rss.cause = suspect->cause;
		rss.advice = suspect->advice;
	}
	*ret_rss = rss;
}

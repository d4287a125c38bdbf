/* SPDX-License-Identifier: Apache-2.0 */
#include "views/origin.h"

#include <stddef.h>

static const struct {
	const char *word, *why;
} unknown[] = {
	{"lifetimes", "the file does not say which block a free ended"},
	{"threads", "the file does not say which thread did what"},
	{"times", "the file does not say when things happened"},
	{"events", "the file has sums per stack, not single events"},
	{"allocations", "the file has what was live, not what was allocated before"},
	{"frees", "the file has what was allocated, not what was freed"},
	{"counts", "the file has bytes, not numbers of blocks"},
	{"sizes", "the file does not say how large single blocks are"},
	{"peak", "the file does not say what was live at the peak"},
	{"temporary", "the file does not say which blocks were temporary"},
};
enum { COUNT = sizeof unknown / sizeof unknown[0] };
_Static_assert(TRACE_UNKNOWN_TEMPORARY == 1u << (COUNT - 1), "one entry per bit");

const char *view_unknown_word(unsigned index)
{
	return index < COUNT ? unknown[index].word : NULL;
}

const char *view_unknown_why(const struct trace_meta *meta, unsigned bits)
{
	for (unsigned i = 0; i < COUNT; i++)
		if (meta->unknown & bits & 1u << i)
			return unknown[i].why;
	return NULL;
}

unsigned view_figure_needs(enum view_figure figure)
{
	static const unsigned needs[VIEW_FIGURE_COUNT] = {
		[VIEW_ALLOCATIONS] = TRACE_UNKNOWN_ALLOCATIONS | TRACE_UNKNOWN_COUNTS,
		[VIEW_ALLOCATED_BYTES] = TRACE_UNKNOWN_ALLOCATIONS,
		[VIEW_FREES] =
			TRACE_UNKNOWN_ALLOCATIONS | TRACE_UNKNOWN_FREES | TRACE_UNKNOWN_COUNTS,
		[VIEW_FREED_BYTES] = TRACE_UNKNOWN_ALLOCATIONS | TRACE_UNKNOWN_FREES,
		[VIEW_TEMPORARY] = TRACE_UNKNOWN_TEMPORARY,
		[VIEW_PEAK_BLOCKS] = TRACE_UNKNOWN_FREES | TRACE_UNKNOWN_COUNTS,
		[VIEW_PEAK_BYTES] = TRACE_UNKNOWN_FREES,
		[VIEW_UNFREED_BLOCKS] = TRACE_UNKNOWN_FREES | TRACE_UNKNOWN_COUNTS,
		[VIEW_UNFREED_BYTES] = TRACE_UNKNOWN_FREES,
		[VIEW_SURVIVING_BLOCKS] = TRACE_UNKNOWN_FREES | TRACE_UNKNOWN_COUNTS,
		[VIEW_SURVIVING_BYTES] = TRACE_UNKNOWN_FREES,
	};
	return needs[figure];
}

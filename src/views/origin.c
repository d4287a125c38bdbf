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

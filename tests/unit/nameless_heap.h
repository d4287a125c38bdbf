/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heaps by chance for the tests of what is said about missing names: modules of
 * every sort (one is there twice, one is a label), functions with and without name
 * and file, inlined ones, allocators, ends of stacks, code made at run time.
 */
#pragma once

#include "collector/modules_seen.h"
#include "collector/stack_ids.h"
#include "views/views.h"

enum { NAMELESS_MODULES = 9, NAMELESS_ADDRESSES = 14, NAMELESS_TEXT = 40 };

struct nameless {
	struct stack_ids stacks;
	struct modules_seen modules;
	struct model *model;
	struct trace_symbol symbols[NAMELESS_MODULES * NAMELESS_ADDRESSES * 2];
	size_t symbol_count;
	char texts[NAMELESS_MODULES * NAMELESS_ADDRESSES * 2][NAMELESS_TEXT];
	struct view_input input; /* all of that */
	uint64_t random;
	uint64_t lack, lack_lines; /* one of so many functions has no name (0: all have), no file */
};

/* Another heap for each seed. */
void nameless_make(struct nameless *heap, uint64_t seed);
void nameless_done(struct nameless *heap);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small heap whose figures are known, for the tests of the views.
 *
 * main ─┬─ cart_add (line 10) ── operator new        stack 3: 2 x 100 bytes
 *       ├─ cart_add (line 10, another address) ── new  stack 5: 1 x 50 bytes
 *       ├─ render ── [inlined draw] ── malloc caller   stack 6: 4 x 10 bytes, temporary
 *       ├─ walk ── walk ── walk                        stack 9: 1 x 7 bytes
 *       ├─ a stripped library, without names           stack 10: 1 x 1000 bytes, freed
 *       └─ anonymous code ── [frames missing]          stack 12: 1 x 20 bytes
 *
 * The peak is 1257 bytes: 200, 50, 7 and 1000. One block of stack 3 is freed after it.
 */
#pragma once

#include "views/views.h"

enum { SHOP_STACKS = 13 };
extern const struct trace_stack shop_stacks[SHOP_STACKS];

struct shop {
	struct model *model;
	struct view_input input;
	uint64_t time_ns;
};

void shop_event(struct shop *shop, enum trace_op op, uint64_t address, uint64_t size,
		uint32_t stack);
void shop_make(struct shop *shop);
/* Makes it and loads it; never NULL. */
struct view_data *shop_load(struct shop *shop);
void shop_unload(struct shop *shop, struct view_data *data);

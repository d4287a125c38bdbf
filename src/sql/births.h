/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which allocation a free belongs to. A trace's free names its block; size,
 * stack and address stand with the allocation, perhaps far before. A scan that
 * began earlier remembers the open blocks; what it does not know is looked up,
 * sorted, so that each block of events is decoded at most once per block scanned.
 */
#pragma once

#include "sql/open_blocks.h"
#include "sql/stack_set.h"
#include "sql/walk.h"

#define BIRTHS_NO_STACK UINT32_MAX /* of an event: its stack is not one of the wanted */

struct births_missing {
	uint64_t block_id;
	size_t at;
};

struct births {
	struct open_blocks open;
	struct births_missing *missing;
	size_t missing_room;
};

TM_MUST_CHECK int births_init(struct births *births, struct sql *sql, struct tm_error *err);
void births_done(struct births *births);
/* Fills stack, size and address of the frees in the loaded block of events. */
TM_MUST_CHECK int births_fill(struct births *births, struct walk *walk,
			      const struct stack_set *wanted, struct tm_error *err);

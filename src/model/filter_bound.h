/* SPDX-License-Identifier: Apache-2.0 */
/* A filter bound to a section, as its parts see it. Nothing changes after filter_bind(). */
#pragma once

#include "model/filter_terms.h"

struct filter_bound {
	const struct filter *filter;
	uint64_t low[FILTER_TERMS_MAX], high[FILTER_TERMS_MAX]; /* moments made into times */
	uint64_t *stack_masks;                                  /* bit per term about names */
	uint8_t *verdicts;                                      /* enum filter_verdict, by stack */
	size_t stack_count;
	uint64_t *thread_masks; /* bit per term about threads */
	size_t thread_count;
	bool needs_blocks, needs_ends, needs_addresses, wants_mappings;
};

enum filter_verdict filter_judge_stack(const struct filter_bound *bound, uint32_t stack_id);

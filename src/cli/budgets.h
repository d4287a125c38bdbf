/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Budgets: what a program's heap may come to, as text.
 *
 *	peak<=64M                       of the whole program
 *	parse_*:allocations<=1000       of all stacks with such a function
 *
 * In a file one per line; '#' begins a comment. docs/check.md is the manual.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum budget_figure {
	BUDGET_PEAK,
	BUDGET_UNFREED,
	BUDGET_ALLOCATIONS,
	BUDGET_TEMPORARY,
	BUDGET_ALLOCATED,
	BUDGET_RSS,
	BUDGET_FIGURE_COUNT,
};

struct budget {
	char *function; /* pattern; NULL = the whole program */
	enum budget_figure figure;
	uint64_t limit; /* the largest value that is within it */
	char *origin;   /* "--max-peak", "budgets.txt:3" */
};

struct budgets {
	struct budget *list;
	size_t count, room;
};

/* "peak", ...; and whether it is a number of bytes. */
const char *budget_name(enum budget_figure figure);
bool budget_is_bytes(enum budget_figure figure);

/* One budget. -EINVAL with a sentence that begins with the origin. */
TM_MUST_CHECK int budgets_add(struct budgets *budgets, const char *text, const char *origin,
			      struct tm_error *err);
/* For options such as --max-peak: the limit alone is text. */
TM_MUST_CHECK int budgets_add_limit(struct budgets *budgets, enum budget_figure figure,
				    const char *limit, const char *origin, struct tm_error *err);
TM_MUST_CHECK int budgets_add_file(struct budgets *budgets, const char *path, struct tm_error *err);
/* Of another recording: as much as `value` and a tolerance. */
TM_MUST_CHECK int budgets_add_value(struct budgets *budgets, enum budget_figure figure,
				    uint64_t limit, const char *origin, struct tm_error *err);
void budgets_done(struct budgets *budgets);

/*
 * Does the pattern ('*' anything, '?' one character) match the whole name, or
 * the name without its arguments? Linear in practice, never worse than the product.
 */
bool budget_matches(const char *pattern, const char *function);

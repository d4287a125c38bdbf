/* SPDX-License-Identifier: Apache-2.0 */
/* Holding a recording against budgets, and finding the stacks that broke one. */
#include <errno.h>
#include <stdio.h>

#include "base/memory.h"
#include "cli/check.h"
#include "views/origin.h"

static const enum view_figure figure_of[BUDGET_FIGURE_COUNT] = {
	[BUDGET_PEAK] = VIEW_PEAK_BYTES,
	[BUDGET_UNFREED] = VIEW_UNFREED_BYTES,
	[BUDGET_ALLOCATIONS] = VIEW_ALLOCATIONS,
	[BUDGET_TEMPORARY] = VIEW_TEMPORARY,
	[BUDGET_ALLOCATED] = VIEW_ALLOCATED_BYTES,
	[BUDGET_RSS] = VIEW_PEAK_BYTES, /* who held the heap then is the best guess */
};

static bool stack_has(const struct view_data *data, uint32_t stack, const char *pattern)
{
	const struct view_frame *frame;
	while ((frame = view_next_frame(data, &stack)))
		if (budget_matches(pattern, frame->function))
			return true;
	return false;
}

static bool concerns(const struct verdict *verdict, const struct view_data *data,
		     const struct suppressions *suppressions, uint32_t stack)
{
	const struct budget *budget = verdict->budget;
	if (budget->figure == BUDGET_UNFREED && suppressions_find(suppressions, stack))
		return false;
	return !budget->function || stack_has(data, stack, budget->function);
}

static void add_culprit(struct verdict *verdict, const struct culprit *culprit)
{
	size_t place = verdict->culprit_count;
	if (place < CHECK_CULPRITS)
		verdict->culprit_count++;
	else if (verdict->culprits[--place].value >= culprit->value)
		return;
	while (place > 0 && verdict->culprits[place - 1].value < culprit->value) {
		verdict->culprits[place] = verdict->culprits[place - 1];
		place--;
	}
	verdict->culprits[place] = *culprit;
}

/* The figure of all stacks that the budget is about; the largest are the culprits. */
static uint64_t add_up(struct verdict *verdict, const struct view_data *data,
		       const struct suppressions *suppressions, uint64_t *ret_blocks)
{
	enum view_figure figure = figure_of[verdict->budget->figure];
	enum view_figure partner = view_columns[figure].partner;
	size_t count;
	const struct view_stack_row *rows = view_stacks(data, &count);
	uint64_t sum = 0;
	*ret_blocks = 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t value = rows[i].figures.of[figure];
		if (!value || !concerns(verdict, data, suppressions, rows[i].stack))
			continue;
		sum += value;
		*ret_blocks += rows[i].figures.of[partner];
		const struct culprit culprit = {.stack = rows[i].stack,
						.value = value,
						.blocks = rows[i].figures.of[partner]};
		add_culprit(verdict, &culprit);
	}
	return sum;
}

/* What an imported file does not say cannot be within a budget. */
static const char *why_unknown(const struct side *side, enum budget_figure figure)
{
	static const unsigned needs[BUDGET_FIGURE_COUNT] = {
		[BUDGET_UNFREED] = TRACE_UNKNOWN_FREES,
		[BUDGET_ALLOCATIONS] = TRACE_UNKNOWN_ALLOCATIONS | TRACE_UNKNOWN_COUNTS,
		[BUDGET_TEMPORARY] = TRACE_UNKNOWN_TEMPORARY,
		[BUDGET_ALLOCATED] = TRACE_UNKNOWN_ALLOCATIONS,
	};
	return view_unknown_why(side->input.meta, needs[figure]);
}

static void judge(const struct check *check, struct verdict *verdict)
{
	const struct side *side = &check->side;
	uint64_t blocks;
	verdict->why_unknown = why_unknown(side, verdict->budget->figure);
	verdict->known = !verdict->why_unknown;
	verdict->value = add_up(verdict, side->data, check->suppressed.list, &blocks);
	if (budget_is_bytes(verdict->budget->figure) && verdict->budget->figure != BUDGET_RSS)
		verdict->error = view_error_bytes(&side->input, verdict->value, blocks);
	if (verdict->budget->figure == BUDGET_RSS) {
		const struct model_totals *totals = &side->totals;
		verdict->known = totals->peak_rss_bytes > 0;
		if (!verdict->known)
			verdict->why_unknown = "the recording has no sample of the resident set";
		/* The agent's share is about: of a very small program it can be the larger. */
		verdict->value = totals->peak_rss_bytes;
		if (verdict->value > totals->rss_agent_bytes)
			verdict->value -= totals->rss_agent_bytes;
	}
	if (verdict->budget->figure == BUDGET_UNFREED && !verdict->budget->function)
		verdict->suppressed_bytes = suppressions_sum(check->suppressed.list).bytes;
	verdict->broken = verdict->known && verdict->value > verdict->budget->limit;
	if (!verdict->broken)
		verdict->culprit_count = 0;
}

/* ---- the baseline ---- */

static const enum budget_figure baseline_figures[] = {
	BUDGET_PEAK, BUDGET_UNFREED, BUDGET_ALLOCATIONS, BUDGET_TEMPORARY, BUDGET_ALLOCATED,
};
enum { BASELINE_COUNT = sizeof baseline_figures / sizeof baseline_figures[0] };

static int add_baseline(struct check *check, uint64_t *old_values, struct tm_error *err)
{
	char origin[120];
	snprintf(origin, sizeof origin, "baseline +%g %%", check->tolerance * 100);
	size_t made = 0;
	for (size_t i = 0; i < BASELINE_COUNT; i++) {
		const struct budget budget = {.figure = baseline_figures[i]};
		if (why_unknown(&check->baseline, budget.figure) ||
		    why_unknown(&check->side, budget.figure))
			continue;
		struct verdict old = {.budget = &budget};
		uint64_t blocks;
		old_values[made] = add_up(&old, check->baseline.data,
					  check->baseline_suppressed.list, &blocks);
		double limit = (double)old_values[made] * (1 + check->tolerance);
		uint64_t most = limit < 1.8e19 ? (uint64_t)limit : UINT64_MAX;
		int code = budgets_add_value(&check->budgets, baseline_figures[i],
					     most > old_values[made] ? most : old_values[made],
					     origin, err);
		if (code)
			return code;
		made++;
	}
	return 0;
}

/* Not the largest stacks are to blame, but those that grew most. */
static int blame_growth(const struct check *check, struct verdict *verdict, struct tm_error *err)
{
	struct diff *diff;
	enum view_figure figure = figure_of[verdict->budget->figure];
	enum view_figure partner = view_columns[figure].partner;
	int code = diff_new(check->baseline.data, check->side.data, &diff, err);
	if (code)
		return code;
	verdict->culprit_count = 0;
	for (size_t i = 0; i < diff->stacks.count; i++) {
		const struct diff_row *row = &diff->stacks.rows[i];
		uint64_t before = row->before.of[figure], after = row->after.of[figure];
		if (after <= before ||
		    !concerns(verdict, check->side.data, check->suppressed.list, row->after_stack))
			continue;
		uint64_t old_blocks = row->before.of[partner], blocks = row->after.of[partner];
		const struct culprit culprit = {
			.stack = row->after_stack,
			.value = after - before,
			.blocks = blocks > old_blocks ? blocks - old_blocks : 0,
		};
		add_culprit(verdict, &culprit);
	}
	diff_free(diff);
	return 0;
}

int check_judge(struct check *check, struct tm_error *err)
{
	uint64_t old_values[BASELINE_COUNT] = {0};
	check->own_count = check->budgets.count;
	int code = check->baseline.path ? add_baseline(check, old_values, err) : 0;
	if (code)
		return code;
	check->verdicts = tm_alloc_array(check->budgets.count + 1, sizeof *check->verdicts);
	if (!check->verdicts)
		return tm_fail(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < check->budgets.count && !code; i++) {
		struct verdict *verdict = &check->verdicts[i];
		verdict->budget = &check->budgets.list[i];
		verdict->is_baseline = i >= check->own_count;
		judge(check, verdict);
		if (verdict->is_baseline)
			verdict->baseline = old_values[i - check->own_count];
		if (verdict->is_baseline && verdict->broken)
			code = blame_growth(check, verdict, err);
		check->broken += verdict->broken;
		check->unknown += !verdict->known;
	}
	return code;
}

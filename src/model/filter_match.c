/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judging stacks, heap blocks and blocks of events. All three run the same
 * program over three values: yes, no, and "depends on what is not known here".
 */
#include <stdlib.h>

#include "model/filter_bound.h"

typedef enum filter_verdict (*term_fn)(const struct filter_bound *bound, size_t term,
				       const void *about);

static enum filter_verdict negate(enum filter_verdict verdict)
{
	return verdict == FILTER_DEPENDS ? FILTER_DEPENDS : verdict == FILTER_NO;
}

static enum filter_verdict both(enum filter_verdict a, enum filter_verdict b)
{
	if (a == FILTER_NO || b == FILTER_NO)
		return FILTER_NO;
	return a == FILTER_YES && b == FILTER_YES ? FILTER_YES : FILTER_DEPENDS;
}

static enum filter_verdict run(const struct filter_bound *bound, term_fn judge, const void *about)
{
	const struct filter *filter = bound->filter;
	enum filter_verdict values[FILTER_STEPS_MAX];
	size_t used = 0;
	for (size_t i = 0; i < filter->step_count; i++) {
		const struct filter_step *step = &filter->steps[i];
		switch ((enum filter_op)step->op) {
		case FILTER_OP_TERM:
			values[used] = judge(bound, step->term, about);
			if (filter->terms[step->term].negated)
				values[used] = negate(values[used]);
			used++;
			break;
		case FILTER_OP_AND:
			used--;
			values[used - 1] = both(values[used - 1], values[used]);
			break;
		case FILTER_OP_OR:
			used--;
			values[used - 1] =
				negate(both(negate(values[used - 1]), negate(values[used])));
			break;
		case FILTER_OP_NOT:
			values[used - 1] = negate(values[used - 1]);
			break;
		}
	}
	return used ? values[0] : FILTER_YES;
}

static enum filter_verdict within(const struct filter_bound *bound, size_t term, uint64_t value)
{
	return value >= bound->low[term] && value <= bound->high[term];
}

/* ---- stacks ---- */

static enum filter_verdict by_name(const struct filter_bound *bound, size_t term, uint32_t stack_id)
{
	return stack_id < bound->stack_count && bound->stack_masks[stack_id] >> term & 1;
}

static enum filter_verdict judge_stack(const struct filter_bound *bound, size_t term,
				       const void *about)
{
	if (filter_is_name(bound->filter->terms[term].key))
		return by_name(bound, term, *(const uint32_t *)about);
	return FILTER_DEPENDS;
}

enum filter_verdict filter_judge_stack(const struct filter_bound *bound, uint32_t stack_id)
{
	return run(bound, judge_stack, &stack_id);
}

enum filter_verdict filter_stack(const struct filter_bound *bound, uint32_t stack_id)
{
	return stack_id < bound->stack_count ? (enum filter_verdict)bound->verdicts[stack_id]
					     : filter_judge_stack(bound, stack_id);
}

bool filter_needs_blocks(const struct filter_bound *bound)
{
	return bound->needs_blocks;
}

bool filter_needs_ends(const struct filter_bound *bound)
{
	return bound->needs_ends;
}

bool filter_needs_addresses(const struct filter_bound *bound)
{
	return bound->needs_addresses;
}

bool filter_wants_mappings(const struct filter_bound *bound)
{
	return bound->wants_mappings;
}

/* ---- heap blocks ---- */

/* An unfreed block lives at least so long as its age at the end: only "longer than" can hold. */
static enum filter_verdict by_lifetime(const struct filter_bound *bound, size_t term,
				       const struct filter_block *block)
{
	uint64_t lived_ns = block->end_ns > block->birth_ns ? block->end_ns - block->birth_ns : 0;
	if (block->is_failure)
		return FILTER_NO;
	if (!block->end_known)
		return FILTER_DEPENDS;
	if (block->ended)
		return within(bound, term, lived_ns);
	return bound->high[term] == UINT64_MAX && lived_ns >= bound->low[term];
}

static enum filter_verdict by_age(const struct filter_bound *bound, size_t term,
				  const struct filter_block *block)
{
	if (block->birth_ns > block->now_ns)
		return FILTER_NO;
	if (!within(bound, term, block->now_ns - block->birth_ns))
		return FILTER_NO;
	if (!block->end_known)
		return FILTER_DEPENDS;
	return block->live_now;
}

static enum filter_verdict by_address(const struct filter_bound *bound, size_t term,
				      const struct filter_block *block)
{
	uint64_t last =
		block->size_bytes > 1 ? block->address + block->size_bytes - 1 : block->address;
	if (last < block->address)
		last = UINT64_MAX;
	return block->address && block->address <= bound->high[term] && last >= bound->low[term];
}

static enum filter_verdict by_kind(uint64_t kind, const struct filter_block *block)
{
	if (kind == FILTER_KIND_MAPPED)
		return block->is_mapping;
	return !block->is_mapping &&
	       (block->api == TRACE_API_CUSTOM) == (kind == FILTER_KIND_CUSTOM);
}

static enum filter_verdict judge_block(const struct filter_bound *bound, size_t term,
				       const void *about)
{
	const struct filter_block *block = about;
	const struct filter_term *facts = &bound->filter->terms[term];
	switch (facts->key) {
	case FILTER_FUNCTION:
	case FILTER_SITE:
	case FILTER_FILE:
	case FILTER_MODULE:
	case FILTER_PACKAGE:
	case FILTER_HEAP:
	case FILTER_TAG:
		return by_name(bound, term, block->stack_id);
	case FILTER_THREAD:
		return block->thread_id < bound->thread_count &&
		       bound->thread_masks[block->thread_id] >> term & 1;
	case FILTER_SIZE:
		return within(bound, term, block->size_bytes);
	case FILTER_LIFETIME:
		return by_lifetime(bound, term, block);
	case FILTER_AGE:
		return by_age(bound, term, block);
	case FILTER_TIME:
		return within(bound, term, block->birth_ns);
	case FILTER_ADDRESS:
		return by_address(bound, term, block);
	case FILTER_KIND:
		return by_kind(facts->low, block);
	case FILTER_API:
		return !block->is_mapping && block->api == facts->low;
	case FILTER_TEMPORARY:
		return block->end_known ? (enum filter_verdict)block->is_temporary : FILTER_DEPENDS;
	case FILTER_UNFREED:
		return block->end_known ? (enum filter_verdict) !block->ended : FILTER_DEPENDS;
	case FILTER_FOREIGN:
		if (!block->end_known)
			return FILTER_DEPENDS;
		return block->ended && !block->unseen && !block->is_failure &&
		       block->free_thread_id != block->thread_id;
	case FILTER_KEY_COUNT:
		break;
	}
	return FILTER_NO;
}

enum filter_verdict filter_block(const struct filter_bound *bound, const struct filter_block *block)
{
	if (block->is_mapping && !bound->wants_mappings)
		return FILTER_NO;
	return run(bound, judge_block, block);
}

/* ---- blocks of events ---- */

/* Of values between `first` and `last`. */
static enum filter_verdict between(const struct filter_bound *bound, size_t term, uint64_t first,
				   uint64_t last)
{
	if (first > bound->high[term] || last < bound->low[term])
		return FILTER_NO;
	return first >= bound->low[term] && last <= bound->high[term] ? FILTER_YES : FILTER_DEPENDS;
}

static enum filter_verdict judge_span(const struct filter_bound *bound, size_t term,
				      const void *about)
{
	const struct filter_span *span = about;
	enum filter_key key = bound->filter->terms[term].key;
	if (key == FILTER_SIZE && span->min_size_bytes <= span->max_size_bytes)
		return between(bound, term, span->min_size_bytes, span->max_size_bytes);
	if (key == FILTER_TIME)
		return between(bound, term, span->start_ns, span->end_ns);
	if (key == FILTER_KIND && bound->filter->terms[term].low == FILTER_KIND_MAPPED)
		return FILTER_NO; /* what events tell of is no mapping */
	if (key == FILTER_ADDRESS && span->min_address <= span->max_address &&
	    between(bound, term, span->min_address, span->max_address) == FILTER_NO)
		return FILTER_NO;
	return FILTER_DEPENDS;
}

bool filter_span_may_match(const struct filter_bound *bound, const struct filter_span *span)
{
	if (span->min_size_bytes > span->max_size_bytes)
		return false; /* nothing was allocated in it */
	return run(bound, judge_span, span) != FILTER_NO;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sql/pairing.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "sql/vtab.h"

static void forget_threads(struct pairing *pairing, bool at_start)
{
	for (size_t i = 0; i <= pairing->thread_count; i++)
		pairing->threads[i] =
			(struct pairing_thread){.knows_realloc = at_start, .chain = TRACE_NO_BLOCK};
}

int pairing_init(struct pairing *pairing, struct sql *sql, const struct pairing_wishes *wishes,
		 const struct stack_set *stacks, struct tm_error *err)
{
	*pairing = (struct pairing){.sql = sql, .wishes = *wishes, .stacks = stacks};
	pairing->thread_count = sql->thread_count;
	sql_walk_init(&pairing->walk, sql);
	pairing->threads = tm_alloc_array(pairing->thread_count + 1, sizeof *pairing->threads);
	if (!pairing->threads || open_blocks_init(&pairing->open, sql))
		return tm_fail(err, -ENOMEM, "out of memory");
	forget_threads(pairing, true);
	return 0;
}

void pairing_done(struct pairing *pairing)
{
	sql_walk_done(&pairing->walk);
	open_blocks_done(&pairing->open);
	tm_free(pairing->threads);
	*pairing = (struct pairing){0};
}

/* ---- which blocks of events ---- */

static bool has_births(const struct pairing *pairing, const struct trace_event_block *facts,
		       uint64_t end_block_id)
{
	const struct pairing_wishes *wishes = &pairing->wishes;
	uint64_t end = facts->first_event + facts->event_count;
	return !pairing->closed && end_block_id > facts->first_block_id &&
	       vtab_i64(end_block_id - 1) >= wishes->min_block_id &&
	       vtab_i64(facts->first_block_id) <= wishes->max_block_id &&
	       vtab_i64(facts->end_ns) >= wishes->min_birth_ns &&
	       vtab_i64(facts->start_ns) <= wishes->max_birth_ns &&
	       vtab_i64(facts->max_size_bytes) >= wishes->min_size &&
	       vtab_i64(facts->min_size_bytes) <= wishes->max_size &&
	       stack_set_acts(pairing->stacks, facts->first_event, end, false);
}

static bool is_any_open(const struct pairing *pairing)
{
	if (pairing->open.used > 0)
		return true;
	for (size_t i = 0; i <= pairing->thread_count; i++)
		if (pairing->threads[i].is_pending)
			return true;
	return false;
}

static bool wants(void *ctx, const struct trace_event_block *facts, uint64_t end_block_id)
{
	const struct pairing *pairing = ctx;
	if (has_births(pairing, facts, end_block_id))
		return true;
	if (!pairing->wishes.ends || !is_any_open(pairing) ||
	    vtab_i64(facts->start_ns) > pairing->wishes.max_end_ns)
		return false;
	/* What a thread did between birth and end may lie anywhere. */
	return pairing->wishes.temporary ||
	       stack_set_acts(pairing->stacks, facts->first_event,
			      facts->first_event + facts->event_count, true);
}

/* ---- events ---- */

static bool is_admitted(const struct pairing *pairing, const struct trace_event *birth)
{
	const struct pairing_wishes *wishes = &pairing->wishes;
	int64_t id = vtab_i64(birth->block_id), size = vtab_i64(trace_word_size(birth->size_bytes)),
		time_ns = vtab_i64(birth->time_ns);
	return !pairing->closed && id >= wishes->min_block_id && id <= wishes->max_block_id &&
	       time_ns >= wishes->min_birth_ns && time_ns <= wishes->max_birth_ns &&
	       size >= wishes->min_size && size <= wishes->max_size &&
	       stack_set_has(pairing->stacks, birth->stack_id) &&
	       (!wishes->admits || wishes->admits(wishes->ctx, birth));
}

static struct pairing_thread *thread_of(const struct pairing *pairing, uint32_t thread_id)
{
	/* A thread that the file does not list shares the last place. */
	return &pairing->threads[thread_id < pairing->thread_count ? thread_id
								   : pairing->thread_count];
}

/* What a realloc's new block continues: if this pass has not seen it, it is looked up. */
static int find_chain(struct pairing *pairing, const struct pairing_thread *thread,
		      const struct trace_event *event, uint64_t *ret_from, struct tm_error *err)
{
	const struct trace_event *half = NULL;
	*ret_from = thread->chain;
	if (thread->knows_realloc || !pairing->wishes.chains)
		return 0;
	uint64_t ordinal =
		pairing->walk.facts.first_event + (uint64_t)(event - pairing->walk.events);
	int code =
		history_last_realloc(&pairing->sql->history, event->thread_id, ordinal, &half, err);
	if (!code && half && half->op == TRACE_REALLOC_FREE)
		*ret_from = half->block_id;
	return code;
}

/* Found blocks of an event: at most one. */
struct found {
	struct pairing_block *block;
	bool any;
};

static void give(struct found *found, const struct pairing_block *block)
{
	*found->block = *block;
	found->any = true;
}

static int on_birth(struct pairing *pairing, const struct trace_event *event, struct found *found,
		    struct tm_error *err)
{
	struct pairing_thread *thread = thread_of(pairing, event->thread_id);
	bool is_realloc = event->op == TRACE_REALLOC_ALLOC, admitted = is_admitted(pairing, event);
	struct open_block block = {
		.key = event->block_id + 1,
		.birth_ns = event->time_ns,
		.size_bytes = event->size_bytes,
		.address = event->address,
		.realloc_from = TRACE_NO_BLOCK,
		.stack_id = event->stack_id,
		.thread_id = event->thread_id,
		.api = event->api,
		.align_log2 = event->align_log2,
	};
	if (is_realloc && admitted) {
		int code = find_chain(pairing, thread, event, &block.realloc_from, err);
		if (code)
			return code;
	}
	if (is_realloc && thread->is_pending)
		give(found, &thread->pending);
	if (is_realloc) {
		thread->is_pending = false;
		thread->chain = TRACE_NO_BLOCK;
		thread->knows_realloc = true;
	}
	thread->last_birth = event->block_id + 1;
	if (admitted && !pairing->wishes.ends) {
		give(found, &(struct pairing_block){.birth = block});
	} else if (admitted && !open_blocks_add(&pairing->open, &block)) {
		pairing->closed = true;
		pairing->next_pass_id = event->block_id;
		pairing->next_pass_index = pairing->walk.index - 1;
	}
	return 0;
}

static void on_end(struct pairing *pairing, const struct trace_event *event, struct found *found)
{
	struct pairing_thread *thread = thread_of(pairing, event->thread_id);
	struct pairing_block block = {
		.end_ns = event->time_ns,
		.end_thread_id = event->thread_id,
		.end_stack_id = event->free_stack_id,
	};
	bool known = pairing->wishes.ends &&
		     open_blocks_take(&pairing->open, event->block_id, &block.birth);
	switch (event->op) {
	case TRACE_FREE:
		block.end = PAIRING_FREE;
		block.temporary = thread->last_birth == event->block_id + 1 &&
				  !(event->flags & TRACE_EVENT_LASTING) &&
				  !trace_word_sampled(block.birth.size_bytes);
		thread->last_birth = 0;
		break;
	case TRACE_REALLOC_FREE:
		block.end = PAIRING_REALLOC;
		if (thread->is_pending)
			give(found, &thread->pending);
		thread->pending = block;
		thread->is_pending = known;
		thread->chain = event->block_id;
		thread->knows_realloc = true;
		thread->last_birth = 0;
		return;
	default:
		block.end = PAIRING_UNSEEN;
		break;
	}
	if (known)
		give(found, &block);
}

static int on_undo(struct pairing *pairing, const struct trace_event *event, struct tm_error *err)
{
	struct pairing_thread *thread = thread_of(pairing, event->thread_id);
	if (thread->is_pending && open_blocks_put_back(&pairing->open, &thread->pending.birth))
		return tm_fail(err, -ENOMEM, "out of memory");
	thread->is_pending = false;
	thread->chain = TRACE_NO_BLOCK;
	thread->knows_realloc = true;
	thread->last_birth = 0;
	return 0;
}

static int on_event(struct pairing *pairing, const struct trace_event *event, struct found *found,
		    struct tm_error *err)
{
	switch ((enum trace_op)event->op) {
	case TRACE_ALLOC:
	case TRACE_REALLOC_ALLOC:
		return on_birth(pairing, event, found, err);
	case TRACE_FREE:
	case TRACE_REALLOC_FREE:
	case TRACE_FREE_UNSEEN:
		on_end(pairing, event, found);
		return 0;
	case TRACE_REALLOC_UNDO:
		return on_undo(pairing, event, err);
	case TRACE_FREE_OLDER:
		thread_of(pairing, event->thread_id)->last_birth = 0;
		return 0;
	case TRACE_ALLOC_FAIL:
	case TRACE_OP_COUNT:
		break;
	}
	return 0;
}

/* ---- passes ---- */

/* What is left at the end of a pass: half-done reallocs have ended their blocks, the rest lives. */
static bool drain(struct pairing *pairing, struct pairing_block *ret)
{
	if (pairing->wishes.max_end_ns < INT64_MAX)
		return false;
	while (pairing->drain_thread <= pairing->thread_count) {
		struct pairing_thread *thread = &pairing->threads[pairing->drain_thread++];
		if (thread->is_pending) {
			thread->is_pending = false;
			*ret = thread->pending;
			return true;
		}
	}
	*ret = (struct pairing_block){.end = PAIRING_LIVE};
	return open_blocks_take_any(&pairing->open, &pairing->drain_at, &ret->birth);
}

/* Begins where the last pass stopped admitting; false if it admitted everything. */
static bool begin_next_pass(struct pairing *pairing)
{
	struct open_block left;
	while (open_blocks_take_any(&pairing->open, &pairing->drain_at, &left))
		;
	pairing->draining = false;
	pairing->drain_at = pairing->drain_thread = 0;
	if (!pairing->closed)
		return false;
	pairing->closed = false;
	pairing->wishes.min_block_id = vtab_i64(pairing->next_pass_id);
	pairing->walk.index = pairing->next_pass_index;
	forget_threads(pairing, pairing->next_pass_index == 0);
	return true;
}

static int load_next(struct pairing *pairing, struct tm_error *err)
{
	int code = sql_walk_load(&pairing->walk, wants, pairing, &pairing->loaded, err);
	pairing->at = 0;
	pairing->draining = !code && !pairing->loaded;
	/* What threads did in between is not known. */
	if (!code && pairing->walk.skipped)
		for (size_t i = 0; i <= pairing->thread_count; i++) {
			pairing->threads[i].last_birth = 0;
			pairing->threads[i].knows_realloc = false;
		}
	return code;
}

int pairing_next(struct pairing *pairing, struct pairing_block *ret, bool *ret_found,
		 struct tm_error *err)
{
	for (;;) {
		struct found found = {.block = ret};
		while (pairing->loaded && pairing->at < pairing->walk.facts.event_count) {
			int code = on_event(pairing, &pairing->walk.events[pairing->at++], &found,
					    err);
			if (code)
				return code;
			if (found.any) {
				*ret_found = true;
				return 0;
			}
		}
		if (pairing->draining) {
			*ret_found = drain(pairing, ret);
			if (*ret_found || !begin_next_pass(pairing))
				return 0;
		}
		int code = load_next(pairing, err);
		if (code)
			return code;
	}
}

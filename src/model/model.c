/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

#include <errno.h>

#include "base/memory.h"
#include "model/state.h"

enum { DEFAULT_SLICE_EVENTS = 262144 };
#define DEFAULT_SLICE_NS 5000000000ull

int model_new(const struct model_options *options, struct model **ret_model, struct tm_error *err)
{
	static const struct model_options defaults;
	if (!options)
		options = &defaults;
	struct model *m = tm_alloc(sizeof *m);
	if (!m || young_init(&m->young) || live_init(&m->live)) {
		if (m)
			young_done(&m->young);
		tm_free(m);
		return tm_fail(err, -ENOMEM, "no memory for the model of the heap");
	}
	m->slice_events = options->slice_events ? options->slice_events : DEFAULT_SLICE_EVENTS;
	if (m->slice_events > MODEL_SLICE_EVENTS_MAX / 2)
		m->slice_events = MODEL_SLICE_EVENTS_MAX / 2;
	m->slice_us = (options->slice_ns ? options->slice_ns : DEFAULT_SLICE_NS) / 1000;
	m->cells_most = MODEL_CELLS_MOST;
	m->unseen.wanted = options->tells_unseen;
	m->rss.heap_known = m->rss.mapped_known = true;
	maps_init(&m->maps, options->page_bytes);
	m->maps.by_stack = options->maps_by_stack;
	model_slice_begin(m, 0);
	*ret_model = m;
	return 0;
}

struct model *model_free(struct model *m)
{
	if (!m)
		return NULL;
	young_done(&m->young);
	live_done(&m->live);
	stacks_done(&m->stacks);
	cells_done(&m->cells);
	threads_done(&m->threads);
	maps_done(&m->maps);
	model_rows_done(&m->out);
	unseen_done(&m->unseen);
	return tm_free(m);
}

bool model_is_live(const struct model *m, uint64_t address)
{
	const struct young *young = young_at(&m->young, address);
	if (m->by_block || young_holds(young, address) || !young_has_older(young))
		return !m->by_block && young_holds(young, address);
	uint64_t mixed = live_mix(&m->live, address);
	return live_find(&m->live, live_page_of(&m->live, mixed), mixed).block;
}

uint64_t model_freed_older(const struct model *m)
{
	return m->freed_older;
}

static struct thread_pending *pending_of(const struct model *m, uint32_t thread_id)
{
	return threads_has(&m->threads, thread_id) ? threads_at(&m->threads, thread_id)->pending
						   : NULL;
}

void model_forget_realloc(struct model *m, uint32_t thread_id)
{
	struct thread_pending *pending = pending_of(m, thread_id);
	if (pending)
		pending->valid = false;
}

uint64_t model_realloc_address(const struct model *m, uint32_t thread_id)
{
	const struct thread_pending *pending = pending_of(m, thread_id);
	return pending && pending->valid ? pending->key : 0;
}

void model_prefetch(const struct model *m, uint64_t address)
{
	live_prefetch(&m->live, live_mix(&m->live, address));
}

void model_next_epoch(struct model *m)
{
	for (uint32_t slot = 0; slot < m->stacks.slot_count; slot++) {
		struct stack_hot *stack = stacks_hot(&m->stacks, slot);
		stack->saved_bytes = stacks_live_bytes(stack);
		stack->saved_blocks = stacks_live_blocks(stack);
		stack->epoch = 0;
	}
}

/* ---- mapped memory and samples ---- */

static void note_time(struct model *m, uint64_t time_us)
{
	if (time_us > m->other_us)
		m->other_us = time_us;
}

int model_apply_map(struct model *m, const struct trace_map_event *event, struct tm_error *err)
{
	uint64_t time_us = event->time_ns / 1000;
	if (!m->rss.mapped_known && time_us > m->rss.time_us) {
		m->rss.mapped_known = true;
		m->rss.mapped_bytes = maps_committed_bytes(&m->maps);
	}
	if (maps_apply(&m->maps, event))
		return tm_fail(err, -ENOMEM, "no memory for the model of the mapped memory");
	note_time(m, time_us);
	return 0;
}

/*
 * Only the largest sample counts, so one is kept. What was in use at its time
 * is known when the first later event comes: events may arrive after a sample
 * of a later time.
 */
void model_apply_sample(struct model *m, const struct trace_sample *sample)
{
	uint64_t time_us = sample->time_ns / 1000;
	note_time(m, time_us);
	if (sample->rss_bytes <= m->rss.sample.rss_bytes)
		return;
	m->rss = (struct model_rss){.sample = *sample, .time_us = time_us};
	if (m->now_us > time_us) {
		m->rss.heap_known = true;
		m->rss.heap_bytes = m->live_bytes;
	}
}

/* ---- questions ---- */

static void rss_totals(const struct model *m, struct model_totals *ret)
{
	const struct model_rss *rss = &m->rss;
	ret->peak_rss_bytes = rss->sample.rss_bytes;
	ret->peak_rss_time_ns = rss->time_us * 1000;
	ret->rss_agent_bytes = rss->sample.agent_bytes;
	ret->rss_anon_bytes = rss->sample.anon_bytes;
	if (rss->sample.rss_bytes == 0)
		return;
	ret->rss_heap_bytes = rss->heap_known ? rss->heap_bytes : m->live_bytes;
	ret->rss_mapped_bytes =
		rss->mapped_known ? rss->mapped_bytes : maps_committed_bytes(&m->maps);
}

void model_totals(const struct model *m, struct model_totals *ret)
{
	const struct map_set *maps = &m->maps;
	*ret = (struct model_totals){
		.duration_ns = (m->now_us > m->other_us ? m->now_us : m->other_us) * 1000,
		.events = m->events,
		.allocations = model_births(m),
		.frees = model_frees(m),
		.allocated_bytes = m->allocated_bytes,
		.freed_bytes = m->allocated_bytes - m->live_bytes,
		.temporary = m->temporary,
		.failed = m->failed,
		.freed_unseen = m->freed_unseen,
		.freed_older = m->freed_older,
		.live_bytes = m->live_bytes,
		.live_blocks = model_live_count(m),
		.peak_bytes = m->peak_bytes,
		.peak_blocks = m->peak_blocks,
		.peak_time_ns = m->peak_us * 1000,
		.mapped_bytes = maps_committed_bytes(maps),
		.mapped_peak_bytes = maps->mapped_peak_bytes,
		.reserved_bytes = maps_reserved_bytes(maps),
		.file_mapped_bytes = maps_file_bytes(maps),
		.mapped_peak_time_ns = maps->mapped_peak_us * 1000,
		.reserved_peak_bytes = maps->reserved_peak_bytes,
		.file_mapped_peak_bytes = maps->file_peak_bytes,
		.brk_bytes = maps->brk_bytes,
		.brk_peak_bytes = maps->brk_peak_bytes,
		.stacks = m->stack_count,
		.unread_events = m->unread_events,
		.saturated = m->saturated,
	};
	rss_totals(m, ret);
}

static void stack_figures(const struct model *m, uint32_t slot, struct model_stack *ret)
{
	const struct stack_hot *hot = stacks_hot(&m->stacks, slot);
	const struct stack_cold *cold = stacks_cold(&m->stacks, slot);
	*ret = (struct model_stack){
		.stack_id = hot->stack_id,
		.allocations = cold->births + hot->births,
		.allocated_bytes = cold->birth_bytes + hot->birth_bytes,
		.temporary = cold->temporary + hot->temporary,
		.failed = cold->failed + cold->open_failed,
		.live_blocks = stacks_live_blocks(hot),
		.live_bytes = stacks_live_bytes(hot),
		.peak_blocks = model_share_blocks(m, hot),
		.peak_bytes = model_share_bytes(m, hot),
	};
	ret->frees = ret->allocations - ret->live_blocks;
	ret->freed_bytes = ret->allocated_bytes - ret->live_bytes;
}

int model_stacks(const struct model *m, model_stack_fn fn, void *ctx)
{
	for (uint32_t chunk = 0; chunk < m->stacks.index_room; chunk++) {
		const uint32_t *index = m->stacks.index[chunk];
		for (uint32_t i = 0; index && i < STACK_CHUNK; i++) {
			struct model_stack stack;
			if (!index[i])
				continue;
			stack_figures(m, index[i] - 1, &stack);
			if (!stack.allocations && !stack.failed)
				continue;
			int rc = fn(ctx, &stack);
			if (rc)
				return rc;
		}
	}
	return 0;
}

int model_stack_find(const struct model *m, uint32_t stack_id, struct model_stack *ret)
{
	uint32_t found = stacks_find(&m->stacks, stack_id);
	if (!found)
		return -ENOENT;
	struct model_stack stack;
	stack_figures(m, found - 1, &stack);
	if (!stack.allocations && !stack.failed)
		return -ENOENT;
	*ret = stack;
	return 0;
}

struct block_visit {
	const struct model *m;
	model_block_fn fn;
	void *ctx;
};

static int visit_block(void *ctx, uint64_t key, const struct live_block *block)
{
	const struct block_visit *visit = ctx;
	const struct model *m = visit->m;
	struct model_block found = {
		.address = m->by_block ? live_other(block) : key,
		.block_id = m->by_block ? key : live_other(block),
		.size_bytes = live_size_bytes(block),
		.birth_ns = live_birth_us(block) * 1000,
		.stack_id = stacks_hot(&m->stacks, block->slot)->stack_id,
		.thread_id = live_thread_id(block),
	};
	return visit->fn(visit->ctx, &found);
}

int model_live_blocks(const struct model *m, model_block_fn fn, void *ctx)
{
	if (m->loaded)
		return -EOPNOTSUPP;
	struct block_visit visit = {.m = m, .fn = fn, .ctx = ctx};
	int rc = young_each(&m->young, visit_block, &visit);
	return rc ? rc : live_each(&m->live, visit_block, &visit);
}

uint64_t model_memory_bytes(const struct model *m)
{
	const struct model_rows *out = &m->out;
	uint64_t rows = out->rows_room * sizeof *out->rows +
			out->deaths_room * sizeof *out->deaths +
			out->buckets_room * sizeof *out->buckets +
			(out->order_room + out->order_other_room) * sizeof *out->order +
			(out->rank_room + out->counts_room) * sizeof *out->rank +
			(out->cells_room + out->cells_other_room) * sizeof *out->cells;
	return sizeof *m + YOUNG_COUNT * sizeof *m->young.places + live_memory_bytes(&m->live) +
	       stacks_memory_bytes(&m->stacks) + m->cells.room * sizeof *m->cells.cells +
	       m->threads.bytes + maps_memory_bytes(&m->maps) + rows;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model_reference.h"

#include <stdlib.h>

struct ref_model *ref_new(void)
{
	struct ref_model *ref = calloc(1, sizeof *ref);
	ref->blocks = calloc(REF_BLOCKS, sizeof *ref->blocks);
	return ref;
}

void ref_free(struct ref_model *ref)
{
	free(ref->blocks);
	free(ref);
}

uint64_t ref_live_bytes(const struct ref_model *ref)
{
	uint64_t sum = 0;
	for (uint64_t i = 0; i < ref->block_count; i++)
		sum += ref->blocks[i].live ? ref->blocks[i].size_bytes : 0;
	return sum;
}

uint64_t ref_live_blocks(const struct ref_model *ref)
{
	uint64_t sum = 0;
	for (uint64_t i = 0; i < ref->block_count; i++)
		sum += ref->blocks[i].live;
	return sum;
}

static uint64_t find_live(const struct ref_model *ref, uint64_t address)
{
	for (uint64_t i = 0; i < ref->block_count; i++) {
		if (ref->blocks[i].live && ref->blocks[i].address == address)
			return i;
	}
	return TRACE_NO_BLOCK;
}

bool ref_is_live(const struct ref_model *ref, uint64_t address)
{
	return find_live(ref, address) != TRACE_NO_BLOCK;
}

/* floor(log2(value)) + 1, by counting. */
static unsigned bucket_of(uint64_t value)
{
	unsigned bucket = 0;
	for (; value; value /= 2)
		bucket++;
	return bucket < TRACE_BUCKETS ? bucket : TRACE_BUCKETS - 1;
}

static struct ref_row *touch(struct ref_model *ref, uint32_t stack_id)
{
	ref->rows[stack_id].touched = true;
	return &ref->rows[stack_id];
}

static void after_change(struct ref_model *ref)
{
	uint64_t live = ref_live_bytes(ref);
	if (live < ref->min_bytes)
		ref->min_bytes = live;
	if (live > ref->max_bytes)
		ref->max_bytes = live;
	if (live <= ref->peak_bytes)
		return;
	ref->peak_rose = true;
	ref->peak_bytes = live;
	ref->peak_blocks = ref_live_blocks(ref);
	ref->peak_ns = ref->now_ns / 1000 * 1000;
	for (size_t s = 0; s < REF_STACKS; s++) {
		ref->stacks[s].peak_blocks = ref->stacks[s].live_blocks;
		ref->stacks[s].peak_bytes = ref->stacks[s].live_bytes;
	}
}

static void end(struct ref_model *ref, uint64_t id)
{
	struct ref_block *block = &ref->blocks[id];
	struct ref_stack *stack = &ref->stacks[block->stack_id];
	struct ref_row *row = touch(ref, block->stack_id);
	block->live = false;
	stack->deaths++;
	stack->death_bytes += block->size_bytes;
	stack->live_blocks--;
	stack->live_bytes -= block->size_bytes;
	row->death_count[block->birth_slice]++;
	row->death_bytes[block->birth_slice] += block->size_bytes;
	row->lives[bucket_of(ref->now_ns / 1000 - block->birth_ns / 1000)]++;
	after_change(ref);
}

static void end_if_live(struct ref_model *ref, uint64_t address)
{
	uint64_t old = find_live(ref, address);
	if (old == TRACE_NO_BLOCK)
		return;
	end(ref, old);
	ref->freed_unseen++;
}

static void begin(struct ref_model *ref, struct trace_event *event)
{
	end_if_live(ref, event->address);
	event->block_id = ref->block_count;
	ref->blocks[ref->block_count++] = (struct ref_block){
		.address = event->address,
		.size_bytes = event->size_bytes,
		.birth_ns = event->time_ns,
		.stack_id = event->stack_id,
		.thread_id = event->thread_id,
		.birth_slice = ref->slice_id,
		.live = true,
	};
	struct ref_stack *stack = &ref->stacks[event->stack_id];
	struct ref_row *row = touch(ref, event->stack_id);
	stack->births++;
	stack->birth_bytes += event->size_bytes;
	stack->live_blocks++;
	stack->live_bytes += event->size_bytes;
	row->births++;
	row->birth_bytes += event->size_bytes;
	row->sizes[bucket_of(event->size_bytes)]++;
	after_change(ref);
}

static void failed(struct ref_model *ref, const struct trace_event *event)
{
	touch(ref, event->stack_id)->failed++;
	ref->stacks[event->stack_id].failed++;
	ref->failed++;
}

static void undo(struct ref_model *ref, struct trace_event *event)
{
	struct ref_thread *thread = &ref->threads[event->thread_id];
	event->block_id = TRACE_NO_BLOCK;
	if (thread->pending) {
		struct ref_block *block = &ref->blocks[thread->pending_block];
		struct ref_stack *stack = &ref->stacks[block->stack_id];
		end_if_live(ref, block->address);
		struct ref_row *row = touch(ref, block->stack_id);
		block->live = true;
		stack->deaths--;
		stack->death_bytes -= block->size_bytes;
		stack->live_blocks++;
		stack->live_bytes += block->size_bytes;
		row->death_count[block->birth_slice]--;
		row->death_bytes[block->birth_slice] -= block->size_bytes;
		row->lives[bucket_of(thread->pending_ns / 1000 - block->birth_ns / 1000)]--;
		event->block_id = thread->pending_block;
		after_change(ref);
	}
	failed(ref, event);
}

static void free_any(struct ref_model *ref, struct trace_event *event)
{
	struct ref_thread *thread = &ref->threads[event->thread_id];
	uint64_t id = find_live(ref, event->address);
	event->block_id = id;
	thread->pending = event->op == TRACE_REALLOC_FREE ? id != TRACE_NO_BLOCK : thread->pending;
	if (id == TRACE_NO_BLOCK) {
		event->stack_id = 0;
		event->size_bytes = 0;
		if (event->op != TRACE_REALLOC_FREE)
			event->op = TRACE_FREE_OLDER;
		ref->freed_older++;
		return;
	}
	const struct ref_block *block = &ref->blocks[id];
	event->stack_id = block->stack_id;
	event->size_bytes = block->size_bytes;
	if (block->birth_slice != ref->slice_id)
		event->flags |= TRACE_EVENT_OLD;
	end(ref, id);
	if (event->op == TRACE_FREE && thread->last_was_birth && thread->last_block == id) {
		event->flags |= TRACE_EVENT_TEMPORARY;
		ref->temporary++;
		ref->stacks[block->stack_id].temporary++;
		ref->rows[block->stack_id].temporary++;
	}
	if (event->op == TRACE_FREE_UNSEEN)
		ref->freed_unseen++;
	if (event->op == TRACE_REALLOC_FREE) {
		thread->pending_block = id;
		thread->pending_ns = event->time_ns;
	}
}

void ref_apply(struct ref_model *ref, const struct trace_event *in, struct trace_event *ret)
{
	*ret = *in;
	struct ref_thread *thread = &ref->threads[in->thread_id];
	ref->now_ns = in->time_ns;
	ref->events++;
	switch ((enum trace_op)in->op) {
	case TRACE_ALLOC:
	case TRACE_REALLOC_ALLOC:
		begin(ref, ret);
		thread->last_was_birth = true;
		thread->last_block = ret->block_id;
		if (in->op == TRACE_REALLOC_ALLOC)
			thread->pending = false;
		return;
	case TRACE_FREE:
	case TRACE_REALLOC_FREE:
	case TRACE_FREE_UNSEEN:
	case TRACE_FREE_OLDER:
		free_any(ref, ret);
		/* The collector makes FREE_UNSEEN up: it is nothing that the thread did. */
		if (in->op != TRACE_FREE_UNSEEN || ret->op == TRACE_FREE_OLDER)
			thread->last_was_birth = false;
		return;
	case TRACE_REALLOC_UNDO:
		undo(ref, ret);
		thread->pending = false;
		thread->last_was_birth = false;
		return;
	case TRACE_ALLOC_FAIL:
		ret->block_id = TRACE_NO_BLOCK;
		failed(ref, ret);
		return;
	case TRACE_OP_COUNT:
		return;
	}
}

void ref_next_slice(struct ref_model *ref)
{
	for (size_t s = 0; s < REF_STACKS; s++)
		ref->rows[s] = (struct ref_row){0};
	ref->slice_id++;
	ref->peak_rose = false;
	ref->min_bytes = ref->max_bytes = ref_live_bytes(ref);
}

/* ---- the source ---- */

uint64_t ref_random(struct ref_source *source, uint64_t below)
{
	source->random = source->random * 6364136223846793005ull + 1442695040888963407ull;
	return (source->random >> 33) % below;
}

static uint64_t some_size(struct ref_source *source)
{
	switch (ref_random(source, 8)) {
	case 0:
		return 0;
	case 1:
		return ref_random(source, 1 << 20);
	case 2:
		return ref_random(source, 1u << 31) << 4;
	default:
		return ref_random(source, 600);
	}
}

static uint64_t some_address(struct ref_source *source)
{
	return REF_FIRST_ADDRESS + 16 * ref_random(source, source->addresses);
}

static void tick(struct ref_source *source)
{
	source->time_ns += ref_random(source, 3000);
	if (ref_random(source, 40) == 0)
		source->time_ns += ref_random(source, 1 << 30);
}

static void begin_event(struct ref_source *source, struct trace_event *event, uint8_t op)
{
	event->op = op;
	event->address = some_address(source);
	event->size_bytes = some_size(source);
	event->stack_id = (uint32_t)ref_random(source, REF_STACKS);
}

/* The end of a realloc that its thread is in, or a signal handler's or another event in between. */
static void end_realloc(struct ref_source *source, struct trace_event *event)
{
	bool fails = ref_random(source, 3) == 0 && !source->plentiful;
	begin_event(source, event, fails ? TRACE_REALLOC_UNDO : TRACE_REALLOC_ALLOC);
	if (fails)
		event->address = 0;
	source->in_realloc &= ~(1u << event->thread_id);
}

static void free_event(struct ref_source *source, const struct ref_model *ref,
		       struct trace_event *event)
{
	const struct ref_thread *thread = &ref->threads[event->thread_id];
	event->op = TRACE_FREE;
	if (thread->last_was_birth && ref_random(source, 2)) {
		event->address = ref->blocks[thread->last_block].address;
	} else if (ref->block_count > 0 && ref_random(source, 4)) {
		uint64_t id = ref_random(source, ref->block_count);
		for (unsigned tries = 0; tries < 50 && !ref->blocks[id].live; tries++)
			id = ref_random(source, ref->block_count);
		event->address = ref->blocks[id].address;
	} else {
		event->address = some_address(source);
	}
	if (ref_random(source, 5) == 0) {
		event->op = TRACE_REALLOC_FREE;
		source->in_realloc |= 1u << event->thread_id;
	}
}

/* Where a block begins, or comes back after a failed realloc; 0 if none does. */
static uint64_t birth_place(const struct ref_model *ref, const struct trace_event *event)
{
	const struct ref_thread *thread = &ref->threads[event->thread_id];
	if (event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC)
		return event->address;
	if (event->op == TRACE_REALLOC_UNDO && thread->pending)
		return ref->blocks[thread->pending_block].address;
	return 0;
}

size_t ref_make(struct ref_source *source, const struct ref_model *ref, struct trace_event ret[2])
{
	struct trace_event event = {.thread_id = (uint32_t)ref_random(source, REF_THREADS)};
	tick(source);
	event.time_ns = source->time_ns;
	if (source->in_realloc >> event.thread_id & 1)
		end_realloc(source, &event);
	else if (ref_random(source, 20) == 0)
		begin_event(source, &event, TRACE_ALLOC_FAIL);
	else if (ref_random(source, 100) < 52)
		begin_event(source, &event, TRACE_ALLOC);
	else
		free_event(source, ref, &event);
	if (event.op == TRACE_ALLOC_FAIL)
		event.address = 0;
	uint64_t place = birth_place(ref, &event);
	if (source->honest && place && ref_is_live(ref, place)) {
		ret[0] = (struct trace_event){.time_ns = event.time_ns,
					      .address = place,
					      .thread_id = event.thread_id,
					      .op = TRACE_FREE_UNSEEN};
		ret[1] = event;
		return 2;
	}
	ret[0] = event;
	return 1;
}

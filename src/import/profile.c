/* SPDX-License-Identifier: Apache-2.0 */
#include "import/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
	SLICES_MAX = 65535,
	STACKS_MAX = 1 << 26, /* as many as the views can name */
};
#define SUM_MAX (1ull << 62) /* of everything: no sum of two leaves 64 bits */

/* Births of one slice that still live. Ends take the youngest first: see close_stack(). */
struct cell {
	uint32_t slice;
	uint64_t blocks, bytes;
};

struct figures {
	uint64_t allocations, allocated_bytes, live_blocks, live_bytes;
};

struct stack {
	struct figures now, next; /* at the last snapshot, and at the open one */
	bool mentioned;           /* by the open snapshot */
	bool unknown;             /* its allocations are */
	uint64_t sized_bytes;     /* all its blocks are of this size, if not 0 */
	bool sized;
	struct cell *cells;
	uint32_t cell_count, cell_room;
};

struct profile {
	struct import_job *job;
	struct stack *stacks; /* by stack_id */
	size_t stack_end, stack_room;
	uint32_t slice;
	uint64_t start_ns, time_ns;
	uint64_t events, births, birth_bytes;
	uint64_t live_bytes, live_blocks;
	uint64_t peak_bytes, peak_blocks, peak_ns;
	bool open;
	/* Rows of the slice that is made. */
	struct trace_slice_row *rows;
	struct trace_death *deaths;
	struct trace_bucket *buckets;
	size_t row_count, row_room, death_count, death_room, bucket_count, bucket_room;
};

static int no_memory(struct tm_error *err)
{
	return tm_fail(err, -ENOMEM, "no memory for the stacks of the file");
}

int profile_new(struct import_job *job, struct profile **ret_profile, struct tm_error *err)
{
	struct profile *p = tm_alloc(sizeof *p);
	if (!p)
		return no_memory(err);
	p->job = job;
	*ret_profile = p;
	return 0;
}

struct profile *profile_free(struct profile *p)
{
	if (!p)
		return NULL;
	for (size_t i = 0; i < p->stack_end; i++)
		tm_free(p->stacks[i].cells);
	tm_free(p->stacks);
	tm_free(p->rows);
	tm_free(p->deaths);
	tm_free(p->buckets);
	return tm_free(p);
}

int profile_snapshot(struct profile *p, uint64_t time_ns, struct tm_error *err)
{
	if (p->open || p->slice == SLICES_MAX)
		return tm_fail(err, -EFBIG, "the file has more than %d snapshots", SLICES_MAX);
	if (time_ns < p->time_ns)
		time_ns = p->time_ns;
	p->start_ns = p->slice ? p->time_ns : 0;
	p->time_ns = time_ns;
	p->open = true;
	return 0;
}

static int reserve_stack(struct profile *p, uint32_t stack_id, struct tm_error *err)
{
	if (stack_id < p->stack_end)
		return 0;
	if (stack_id >= STACKS_MAX)
		return tm_fail(err, -EFBIG, "the file has too many stacks");
	if (stack_id >= p->stack_room) {
		size_t room = p->stack_room ? p->stack_room : 256;
		while (room <= stack_id)
			room *= 2;
		void *grown = tm_grow_array(p->stacks, room, sizeof *p->stacks);
		if (!grown)
			return no_memory(err);
		p->stacks = grown;
		p->stack_room = room;
	}
	memset(p->stacks + p->stack_end, 0, (stack_id + 1 - p->stack_end) * sizeof *p->stacks);
	p->stack_end = stack_id + 1;
	return 0;
}

static uint64_t add(uint64_t a, uint64_t b)
{
	uint64_t sum;
	return __builtin_add_overflow(a, b, &sum) || sum > SUM_MAX ? SUM_MAX : sum;
}

int profile_row(struct profile *p, const struct profile_row *row, struct tm_error *err)
{
	int code = reserve_stack(p, row->stack_id, err);
	if (code)
		return code;
	struct stack *stack = &p->stacks[row->stack_id];
	struct figures *next = &stack->next;
	if (!stack->mentioned)
		*next = (struct figures){0};
	stack->mentioned = true;
	stack->unknown |= row->allocations == PROFILE_UNKNOWN;
	if (row->allocations != PROFILE_UNKNOWN) {
		next->allocations = add(next->allocations, row->allocations);
		next->allocated_bytes = add(next->allocated_bytes, row->allocated_bytes);
	}
	if (next->allocated_bytes && !next->allocations)
		next->allocations = 1;
	next->live_blocks = add(next->live_blocks, row->live_blocks);
	next->live_bytes = add(next->live_bytes, row->live_bytes);
	if (next->live_bytes && !next->live_blocks)
		next->live_blocks = 1;
	/* The trace counts live blocks of a stack in 32 bits. */
	if (next->live_blocks > UINT32_MAX)
		next->live_blocks = UINT32_MAX;
	if (stack->sized && stack->sized_bytes != row->block_bytes)
		stack->sized_bytes = 0;
	else
		stack->sized_bytes = row->block_bytes;
	stack->sized = true;
	return 0;
}

/* ---- a snapshot becomes a slice ---- */

static void *with_room(void *array, size_t count, size_t *room, size_t bytes)
{
	if (count < *room)
		return array;
	void *grown = tm_grow_array(array, *room * 2 + 64, bytes);
	if (grown)
		*room = *room * 2 + 64;
	return grown;
}

static int add_death(struct profile *p, struct trace_slice_row *row, uint32_t slice,
		     uint64_t blocks, uint64_t bytes)
{
	if (!blocks && !bytes)
		return 0;
	void *grown = with_room(p->deaths, p->death_count, &p->death_room, sizeof *p->deaths);
	if (!grown)
		return -ENOMEM;
	p->deaths = grown;
	p->deaths[p->death_count++] =
		(struct trace_death){.birth_slice = slice, .count = blocks, .bytes = bytes};
	row->death_count++;
	return 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Ends take the youngest births: what remains of a stack is then at least so old,
 * which is all that such a file tells.
 */
static int end_blocks(struct profile *p, struct stack *stack, struct trace_slice_row *row,
		      uint64_t blocks, uint64_t bytes)
{
	size_t first = p->death_count;
	for (uint32_t i = stack->cell_count; i-- > 0 && (blocks || bytes);) {
		struct cell *cell = &stack->cells[i];
		uint64_t some = least(blocks, cell->blocks), part = least(bytes, cell->bytes);
		if (add_death(p, row, cell->slice, some, part))
			return -ENOMEM;
		cell->blocks -= some;
		cell->bytes -= part;
		blocks -= some;
		bytes -= part;
	}
	while (stack->cell_count && !stack->cells[stack->cell_count - 1].blocks &&
	       !stack->cells[stack->cell_count - 1].bytes)
		stack->cell_count--;
	/* Rows want them by birth, the oldest first. */
	for (size_t a = first, b = p->death_count; a + 1 < b; a++) {
		struct trace_death kept = p->deaths[a];
		p->deaths[a] = p->deaths[--b];
		p->deaths[b] = kept;
	}
	return 0;
}

static int begin_blocks(struct profile *p, struct stack *stack, struct trace_slice_row *row)
{
	if (!row->births && !row->birth_bytes)
		return 0;
	if (stack->cell_count == stack->cell_room) {
		uint32_t room = stack->cell_room * 2 + 2;
		void *grown = tm_grow_array(stack->cells, room, sizeof *stack->cells);
		if (!grown)
			return -ENOMEM;
		stack->cells = grown;
		stack->cell_room = room;
	}
	stack->cells[stack->cell_count++] =
		(struct cell){.slice = p->slice, .blocks = row->births, .bytes = row->birth_bytes};
	return 0;
}

/* What was allocated cannot be less than what lives more, nor fall. */
static uint64_t births_of(uint64_t known_before, uint64_t known_now, uint64_t before, uint64_t now,
			  bool unknown)
{
	uint64_t rise = now > before ? now - before : 0;
	if (unknown || known_now < known_before || known_now - known_before < rise)
		return rise;
	return known_now - known_before;
}

static void fill_births(struct stack *stack, struct trace_slice_row *row)
{
	const struct figures *now = &stack->now;
	struct figures *next = &stack->next;
	row->births = births_of(now->allocations, next->allocations, now->live_blocks,
				next->live_blocks, stack->unknown);
	row->birth_bytes = births_of(now->allocated_bytes, next->allocated_bytes, now->live_bytes,
				     next->live_bytes, stack->unknown);
	next->allocations = add(now->allocations, row->births);
	next->allocated_bytes = add(now->allocated_bytes, row->birth_bytes);
}

static uint32_t bucket_of(uint64_t value)
{
	uint32_t bucket = value ? 64 - (uint32_t)__builtin_clzll(value) : 0;
	return bucket < TRACE_BUCKETS ? bucket : TRACE_BUCKETS - 1;
}

static int fill_sizes(struct profile *p, const struct stack *stack, struct trace_slice_row *row)
{
	if (!stack->sized_bytes || !row->births)
		return 0;
	void *grown = with_room(p->buckets, p->bucket_count, &p->bucket_room, sizeof *p->buckets);
	if (!grown)
		return -ENOMEM;
	p->buckets = grown;
	p->buckets[p->bucket_count++] = (struct trace_bucket){
		.bucket = bucket_of(stack->sized_bytes), .count = row->births};
	row->size_bucket_count = 1;
	return 0;
}

/* One stack: 0, -ENOMEM, or 1: the sums are too large. */
static int close_stack(struct profile *p, uint32_t stack_id)
{
	struct stack *stack = &p->stacks[stack_id];
	if (!stack->mentioned) {
		stack->next = stack->now;
		stack->next.live_blocks = stack->next.live_bytes = 0;
	}
	stack->mentioned = false;
	void *grown = with_room(p->rows, p->row_count, &p->row_room, sizeof *p->rows);
	if (!grown)
		return -ENOMEM;
	p->rows = grown;
	struct trace_slice_row *row = &p->rows[p->row_count];
	*row = (struct trace_slice_row){.stack_id = stack_id};
	fill_births(stack, row);
	const struct figures *now = &stack->now, *next = &stack->next;
	uint64_t died = now->live_blocks + row->births - next->live_blocks;
	uint64_t died_bytes = now->live_bytes + row->birth_bytes - next->live_bytes;
	if (!row->births && !row->birth_bytes && !died && !died_bytes)
		return 0;
	if (begin_blocks(p, stack, row) || end_blocks(p, stack, row, died, died_bytes) ||
	    fill_sizes(p, stack, row))
		return -ENOMEM;
	p->events = add(p->events, add(row->births, died));
	p->births = add(p->births, row->births);
	p->birth_bytes = add(p->birth_bytes, row->birth_bytes);
	p->live_blocks += next->live_blocks - now->live_blocks;
	p->live_bytes += next->live_bytes - now->live_bytes;
	stack->now = *next;
	p->row_count++;
	return p->events == SUM_MAX || p->birth_bytes == SUM_MAX;
}

/* Arrays that the rows point into may have moved while they grew. */
static void point_rows(struct profile *p)
{
	const struct trace_death *death = p->deaths;
	const struct trace_bucket *bucket = p->buckets;
	for (size_t i = 0; i < p->row_count; i++) {
		p->rows[i].deaths = death;
		p->rows[i].sizes = bucket;
		death += p->rows[i].death_count;
		bucket += p->rows[i].size_bucket_count;
	}
}

static void share_peak(struct profile *p)
{
	if (p->live_bytes <= p->peak_bytes)
		return;
	p->peak_bytes = p->live_bytes;
	p->peak_blocks = p->live_blocks;
	p->peak_ns = p->time_ns;
	for (size_t i = 0; i < p->row_count; i++) {
		const struct figures *live = &p->stacks[p->rows[i].stack_id].now;
		p->rows[i].peak_known = true;
		p->rows[i].peak_count = live->live_blocks;
		p->rows[i].peak_bytes = live->live_bytes;
	}
}

int profile_close(struct profile *p, struct tm_error *err)
{
	struct trace_slice slice = {
		.slice_id = p->slice,
		.start_ns = p->start_ns,
		.end_ns = p->time_ns,
		.first_event = p->events,
		.births = p->births,
		.birth_bytes = p->birth_bytes,
		.min_live_bytes = p->live_bytes,
	};
	uint64_t freed = p->births - p->live_blocks, freed_bytes = p->birth_bytes - p->live_bytes;
	p->row_count = p->death_count = p->bucket_count = 0;
	int code = 0;
	for (size_t i = 0; i < p->stack_end && !code; i++)
		code = close_stack(p, (uint32_t)i);
	if (code < 0)
		return no_memory(err);
	if (code > 0)
		return tm_fail(err, -EOVERFLOW, "the sums of the file are beyond any memory");
	point_rows(p);
	share_peak(p);
	slice.event_count = p->events - slice.first_event;
	slice.births = p->births - slice.births;
	slice.birth_bytes = p->birth_bytes - slice.birth_bytes;
	slice.deaths = p->births - p->live_blocks - freed;
	slice.death_bytes = p->birth_bytes - p->live_bytes - freed_bytes;
	slice.live_bytes = slice.max_live_bytes = p->live_bytes;
	slice.live_blocks = p->live_blocks;
	slice.min_live_bytes = least(slice.min_live_bytes, p->live_bytes);
	slice.max_live_time_ns = p->time_ns;
	slice.peak_bytes = p->peak_bytes;
	slice.peak_blocks = p->peak_blocks;
	slice.peak_time_ns = p->peak_ns;
	slice.row_count = (uint32_t)p->row_count;
	slice.rows = p->rows;
	p->slice++;
	p->open = false;
	code = trace_writer_slice(import_writer(p->job), &slice);
	return code ? import_write_failed(code, err) : 0;
}

int profile_end(struct profile *p, const struct frames *frames, uint64_t duration_ns,
		struct tm_error *err)
{
	const struct trace_end end = {.cause = TRACE_END_UNSAID,
				      .duration_ns = duration_ns,
				      .events_not_stored = p->events};
	import_count(p->job, 0, frames_stack_count(frames));
	return import_end(p->job, &end, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Columns to events: the mirror of encode.c, with every value checked. */
#include "trace/decode.h"

#include "base/memory.h"
#include "trace/foresee.h"

#define LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

const char decode_no_memory[] = "there is no memory for it";

/* What an end in the same block of events needs of a block: in one place, not in its event. */
struct birth {
	uint64_t size_bytes, address;
	uint32_t stack_id;
};

/* Made for the largest block of events; what a small one does not touch costs nothing. */
struct decode_memory {
	struct foresee_stack *stacks;
	struct foresee_live live;
	struct birth *births; /* of the blocks that began here, by local number */
	uint32_t *next_freed;
	struct foresee_thread *threads;
	struct foresee_slot *foreseen;
};

struct decode {
	const struct decode_limits *limits;
	struct span *columns;
	struct trace_event *events;
	uint32_t born, stack_count, free_context;
	uint64_t last_old;
	uint32_t live_ends;
	struct foresee_thread *thread; /* the present one's */
	bool addresses;
	/* As in the memory. */
	struct foresee_stack *stacks;
	struct foresee_live live;
	struct birth *births;
	uint32_t *next_freed;
	struct foresee_thread *threads;
	struct foresee_slot *foreseen;
	/* The present runs: what is left of them, and what comes after. */
	uint64_t time_run, time_ns, next_tick;
	uint64_t thread_run, next_thread;
	uint32_t thread_id;
	struct foresee_recent recent;
	const char *wrong;
};

struct decode_memory *decode_memory_new(void)
{
	enum { MOST = FORMAT_BLOCK_EVENTS + 1 };
	struct decode_memory *m = tm_alloc(sizeof *m);
	if (!m)
		return NULL;
	m->stacks = tm_grow_array(NULL, MOST, sizeof *m->stacks);
	m->threads = tm_grow_array(NULL, COLUMN_THREADS, sizeof *m->threads);
	m->births = tm_grow_array(NULL, MOST, sizeof *m->births);
	m->next_freed = tm_grow_array(NULL, MOST, sizeof *m->next_freed);
	m->foreseen = tm_grow_array(NULL, COLUMN_HISTORIES, sizeof *m->foreseen);
	if (foresee_live_init(&m->live) && m->stacks && m->threads && m->births && m->next_freed &&
	    m->foreseen)
		return m;
	return decode_memory_free(m);
}

struct decode_memory *decode_memory_free(struct decode_memory *m)
{
	if (!m)
		return NULL;
	tm_free(m->stacks);
	foresee_live_done(&m->live);
	tm_free(m->threads);
	tm_free(m->births);
	tm_free(m->next_freed);
	tm_free(m->foreseen);
	return tm_free(m);
}

static void start(struct decode *d)
{
	d->stacks[0] = (struct foresee_stack){0};
	d->stack_count = 1;
	d->last_old = d->limits->first_block_id;
	memset(d->foreseen, 0, COLUMN_HISTORIES * sizeof *d->foreseen);
	foresee_threads_start(d->threads, &d->live);
}

/* Two numbers of a nibble each, or more. */
static inline void take_nibbles(struct span *column, uint64_t *ret_first, uint64_t *ret_second)
{
	uint8_t byte = 0;
	if (LIKELY(column->next < column->end))
		byte = *column->next++;
	else
		column->bad = true;
	*ret_first = byte >> 4;
	*ret_second = byte & 15;
	if (UNLIKELY(*ret_first == COLUMN_ESCAPE))
		*ret_first += span_limited(column, FORMAT_BLOCK_EVENTS);
	if (UNLIKELY(*ret_second == COLUMN_ESCAPE))
		*ret_second += span_limited(column, UINT64_MAX - COLUMN_ESCAPE - 1);
}

/* The next run of events in one microsecond; the last run lasts to the end. */
static bool next_time(struct decode *d, size_t left)
{
	struct span *column = &d->columns[COLUMN_TIME];
	uint64_t run = left - 1, step = 0;
	d->time_ns = d->next_tick * COLUMN_TICK_NS;
	if (span_left(column) > 0)
		take_nibbles(column, &run, &step);
	run++;
	if (column->bad || run == 0 || run > left)
		return d->wrong = "a run of times is too long", false;
	if (step >= UINT64_MAX / COLUMN_TICK_NS - d->next_tick)
		return d->wrong = "a time is beyond all times", false;
	d->next_tick += step + 1;
	d->time_run = run;
	return true;
}

static bool next_thread(struct decode *d, size_t left)
{
	struct span *column = &d->columns[COLUMN_THREAD];
	uint64_t run = left - 1, rank = 0;
	if (d->next_thread >= d->limits->thread_count)
		return d->wrong = "a thread is not in the file", false;
	d->thread_id = (uint32_t)d->next_thread;
	foresee_recent_use(&d->recent, d->thread_id);
	if (span_left(column) > 0)
		take_nibbles(column, &run, &rank);
	if (column->bad || run >= left || (rank >= d->recent.count && rank < COLUMN_ESCAPE))
		return d->wrong = "a run of threads is too long", false;
	d->next_thread = rank < COLUMN_ESCAPE ? d->recent.thread_id[rank] : rank - COLUMN_ESCAPE;
	d->thread_run = run + 1;
	return true;
}

/* Time and thread of events [first, end), all else 0. */
static bool decode_runs(struct decode *d, size_t first, size_t end, size_t count)
{
	memset(d->events + first, 0, (end - first) * sizeof *d->events);
	for (size_t i = first; i < end;) {
		if (d->time_run == 0 && !next_time(d, count - i))
			return false;
		size_t part = d->time_run < end - i ? (size_t)d->time_run : end - i;
		size_t after = i + part;
		d->time_run -= part;
		/* Runs are short and as good as random: rather write too many than jump often. */
		for (; i + 4 <= end && i < after; i += 4)
			for (size_t k = 0; k < 4; k++)
				d->events[i + k].time_ns = d->time_ns;
		for (; i < after; i++)
			d->events[i].time_ns = d->time_ns;
		i = after;
	}
	for (size_t i = first; i < end;) {
		if (d->thread_run == 0 && !next_thread(d, count - i))
			return false;
		size_t part = d->thread_run < end - i ? (size_t)d->thread_run : end - i;
		d->thread_run -= part;
		for (; part > 0; part--)
			d->events[i++].thread_id = d->thread_id;
	}
	return true;
}

/* A stack number that was written, new ones included. */
static uint32_t take_stack(struct decode *d, enum column column, uint32_t number)
{
	if (number < d->stack_count)
		return number;
	int64_t step = span_signed(&d->columns[column]);
	int64_t stack_id = (int64_t)d->stacks[d->stack_count - 1].stack_id;
	if (number != d->stack_count || __builtin_add_overflow(stack_id, step, &stack_id) ||
	    stack_id < 0 || stack_id >= d->limits->stack_count) {
		d->wrong = "a stack is not in the file";
		return 0;
	}
	d->stacks[number] = (struct foresee_stack){.stack_id = (uint32_t)stack_id};
	d->stack_count++;
	return number;
}

static void decode_address(struct decode *d, struct foresee_stack *stack, struct trace_event *event)
{
	unsigned class = column_size_class(event->size_bytes);
	const uint8_t *hit = span_take(&d->columns[COLUMN_ADDRESS_HIT], 1);
	uint32_t freed = d->thread->freed[class];
	if (!hit || *hit > COLUMN_ADDRESS_ODD ||
	    (*hit == COLUMN_ADDRESS_FREED && freed == UINT32_MAX)) {
		d->wrong = "an address is missing";
		return;
	}
	if (*hit == COLUMN_ADDRESS_FREED) {
		event->address = d->births[freed].address;
	} else if (*hit == COLUMN_ADDRESS_NEXT) {
		event->address = d->thread->address;
	} else {
		uint64_t step = (uint64_t)span_signed(&d->columns[COLUMN_ADDRESS]);
		event->address = stack->address + (*hit == COLUMN_ADDRESS_ODD ? step : step * 16);
	}
	if (freed != UINT32_MAX && *hit != COLUMN_ADDRESS_NEXT)
		d->thread->freed[class] = d->next_freed[freed];
	d->thread->address = column_next_address(event->address, event->size_bytes);
	stack->address = event->address;
}

static uint32_t decode_stack(struct decode *d, unsigned how, uint32_t foreseen)
{
	uint32_t *follower = &d->stacks[d->thread->history.stacks & COLUMN_STACK_MASK].follower;
	uint32_t number = foreseen;
	if (how == TOKEN_BY_STACK)
		return *follower;
	if (how == TOKEN_MISS)
		number = take_stack(d, COLUMN_STACK, span_u32(&d->columns[COLUMN_STACK]));
	return *follower = number;
}

static void decode_extra(struct decode *d, struct foresee_stack *stack)
{
	const uint8_t *extra = span_take(&d->columns[COLUMN_EXTRA], 2);
	if (!extra || extra[0] >= TRACE_API_COUNT || extra[1] > 63) {
		d->wrong = "an api or alignment is out of range";
		return;
	}
	stack->api = extra[0];
	stack->align_log2 = extra[1];
}

static void decode_alloc(struct decode *d, uint32_t index, unsigned token, bool extra)
{
	struct trace_event *event = &d->events[index];
	struct foresee_slot *foreseen = &d->foreseen[foresee_history_slot(&d->thread->history)];
	unsigned how = token % TOKEN_ALLOC_KIND / 3, how_size = token % 3;
	uint32_t number = decode_stack(d, how, foreseen->stack);
	struct foresee_stack *stack = &d->stacks[number];
	if (how_size == TOKEN_BY_HISTORY)
		stack->size_bytes = foreseen->size_bytes;
	else if (how_size == TOKEN_MISS)
		stack->size_bytes = span_varint(&d->columns[COLUMN_SIZE]);
	if (extra)
		decode_extra(d, stack);
	*foreseen = (struct foresee_slot){number, (uint32_t)stack->size_bytes};
	foresee_history_alloc(&d->thread->history, number);
	event->op = column_alloc_ops[token / TOKEN_ALLOC_KIND];
	event->stack_id = stack->stack_id;
	event->size_bytes = stack->size_bytes;
	event->api = stack->api;
	event->align_log2 = stack->align_log2;
	event->block_id = TRACE_NO_BLOCK;
	if (event->op != TRACE_ALLOC && event->op != TRACE_REALLOC_ALLOC)
		return;
	event->block_id = d->limits->first_block_id + d->born;
	if (d->addresses)
		decode_address(d, stack, event);
	struct birth *birth = &d->births[d->born];
	birth->size_bytes = event->size_bytes;
	birth->address = event->address;
	birth->stack_id = event->stack_id;
	foresee_live_add(&d->live, d->live_ends, d->born++);
}

static void decode_local(struct decode *d, struct trace_event *event, uint64_t block)
{
	if (block >= d->born) {
		d->wrong = "a freed block was not born yet";
		return;
	}
	const struct birth *birth = &d->births[block];
	event->block_id = d->limits->first_block_id + block;
	event->address = birth->address;
	event->size_bytes = birth->size_bytes;
	event->stack_id = birth->stack_id;
	if (d->live.older[block] == COLUMN_LIVE_NOT)
		return;
	d->thread->last_older = d->live.older[block];
	d->thread->last_younger = d->live.younger[block];
	foresee_live_remove(&d->live, (uint32_t)block);
	if (!d->addresses)
		return; /* the rest foresees addresses */
	unsigned class = column_size_class(birth->size_bytes);
	d->next_freed[block] = d->thread->freed[class];
	d->thread->freed[class] = (uint32_t)block;
}

static void decode_old(struct decode *d, struct trace_event *event, int64_t step)
{
	d->last_old += (uint64_t)step;
	if (d->last_old >= d->limits->first_block_id)
		d->wrong = "an old block is not old";
	event->block_id = d->last_old;
}

static void decode_free_stack(struct decode *d, struct trace_event *event)
{
	uint32_t coded = span_u32(&d->columns[COLUMN_FREE_STACK]);
	uint32_t number = d->stacks[d->free_context].follower;
	if (coded > 0) {
		number = take_stack(d, COLUMN_FREE_STACK, coded - 1);
		d->stacks[d->free_context].follower = number;
	}
	event->free_stack_id = d->stacks[number].stack_id;
	d->free_context = number;
}

static void decode_free(struct decode *d, uint32_t index, unsigned token)
{
	struct trace_event *event = &d->events[index];
	struct span *column = &d->columns[COLUMN_FREE];
	unsigned kind = (token - TOKEN_FREE) / TOKEN_FREE_KIND;
	event->op = column_free_ops[kind];
	foresee_history_free(&d->thread->history, kind);
	bool is_local = true;
	uint64_t block = 0;
	switch ((enum token_free)((token - TOKEN_FREE) % TOKEN_FREE_KIND)) {
	case TOKEN_FREE_TOP:
		block = d->live.older[d->live_ends];
		break;
	case TOKEN_FREE_NEXT:
		block = d->thread->last_younger;
		break;
	case TOKEN_FREE_PREVIOUS:
		block = d->thread->last_older;
		break;
	case TOKEN_FREE_LOCAL:
		block = d->born - 1 - span_varint(column);
		break;
	case TOKEN_FREE_OLD:
		is_local = false;
		decode_old(d, event, span_signed(column));
		break;
	case TOKEN_FREE_OLD_NEXT:
		is_local = false;
		decode_old(d, event, 1);
		break;
	case TOKEN_FREE_OLD_BEFORE:
		is_local = false;
		decode_old(d, event, -1);
		break;
	case TOKEN_FREE_UNKNOWN:
		is_local = false;
		event->block_id = TRACE_NO_BLOCK;
		break;
	}
	if (is_local)
		decode_local(d, event, block);
	if (d->limits->free_stacks)
		decode_free_stack(d, event);
}

static void decode_part(struct decode *d, const uint8_t *tokens, size_t first, size_t end)
{
	for (size_t i = first; i < end && LIKELY(!d->wrong); i++) {
		unsigned token = tokens[i] & ~(unsigned)TOKEN_EXTRA;
		uint32_t slot = d->events[i].thread_id % COLUMN_THREADS;
		d->thread = &d->threads[slot];
		d->live_ends = COLUMN_LIVE_ENDS + slot;
		if (token < TOKEN_FREE)
			decode_alloc(d, (uint32_t)i, token, tokens[i] & TOKEN_EXTRA);
		else if (LIKELY(token < TOKEN_END))
			decode_free(d, (uint32_t)i, token);
		else
			d->wrong = "an event is of an unknown kind";
	}
}

/*
 * Where blocks are culled their numbers jump. Until here each block that began in this block of
 * events had its place in it as a number; births[].size_bytes becomes the true one.
 */
static const char *number_culled(struct decode *d, size_t count)
{
	struct span *column = &d->columns[COLUMN_CULLED];
	uint64_t first = d->limits->first_block_id, jumped = 0, mark = 0, born = 0;
	uint64_t next = span_varint(column);
	for (size_t i = 0; i < count && !column->bad; i++) {
		struct trace_event *event = &d->events[i];
		bool begins = event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC;
		bool ends = !begins && event->block_id != TRACE_NO_BLOCK;
		if (next != UINT64_MAX && i - mark == next >> 1) {
			bool jumps = (next & 1) == CULLED_JUMP;
			if (jumps ? !begins : event->op != TRACE_FREE)
				return "a mark of culled blocks stands at another event";
			event->flags |= jumps ? 0 : TRACE_EVENT_LASTING;
			if (jumps && __builtin_add_overflow(jumped, span_varint(column), &jumped))
				return "the number of a block is beyond all numbers";
			mark = i;
			next = span_left(column) ? span_varint(column) : UINT64_MAX;
		}
		if (begins) {
			if (jumped > (UINT64_MAX >> 1) - first)
				return "the number of a block is beyond all numbers";
			event->block_id += jumped;
			d->births[born++].size_bytes = event->block_id;
		} else if (ends && event->block_id >= first) {
			event->block_id = d->births[event->block_id - first].size_bytes;
		}
	}
	return next == UINT64_MAX ? NULL : "a mark of culled blocks stands at no event";
}

/* In parts that stay in the first cache from their times to their blocks. */
static const char *decode_all(struct decode *d, size_t count)
{
	enum { PART = 256 };
	start(d);
	const uint8_t *tokens = span_take(&d->columns[COLUMN_TOKEN], count);
	if (!tokens)
		return "events are missing";
	d->next_tick = d->limits->start_ns / COLUMN_TICK_NS;
	d->next_thread = count > 0 ? span_varint(&d->columns[COLUMN_THREAD]) : 0;
	for (size_t i = 0; i < count && !d->wrong; i += PART) {
		size_t end = count - i < PART ? count : i + PART;
		if (decode_runs(d, i, end, count))
			decode_part(d, tokens, i, end);
	}
	const char *wrong = d->wrong;
	if (!wrong && span_left(&d->columns[COLUMN_CULLED]))
		wrong = number_culled(d, count);
	for (int i = 0; i < COLUMN_COUNT && !wrong; i++)
		wrong = d->columns[i].bad ? "a column is too short" : NULL;
	return wrong;
}

const char *decode_events(const struct decode_limits *limits, struct span columns[COLUMN_COUNT],
			  bool addresses, struct decode_memory *memory, struct trace_event *events,
			  size_t count)
{
	struct decode d = {
		.limits = limits,
		.columns = columns,
		.events = events,
		.addresses = addresses,
		.stacks = memory->stacks,
		.live = memory->live,
		.births = memory->births,
		.next_freed = memory->next_freed,
		.threads = memory->threads,
		.foreseen = memory->foreseen,
	};
	if (count > FORMAT_BLOCK_EVENTS)
		return "there are more events than a block can have";
	return decode_all(&d, count);
}

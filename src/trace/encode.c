/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events to columns: the hot part of writing. Each column has room for the
 * worst case of a whole block, so that nothing is checked per event; memory
 * that is never needed is never touched.
 *
 * The loop works on a copy of the state whose address does not escape, because
 * a store to a byte of a column might otherwise alias every field: that is why
 * everything it calls is inlined. It is worth a third of the time.
 */
#include "trace/encode.h"

#include "base/memory.h"
#include "base/varint.h"
#include "trace/container.h"
#include "trace/ends.h"
#include "trace/foresee.h"
#include "trace/rows.h"

#include <errno.h>

/* Readers find what is not noted in the older blocks; memory must not grow for ever. */
enum { ENCODE_REFS_BYTES = 8 << 20 };

#define HOT                 static inline __attribute__((always_inline))
#define LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* A block that began in the open block of events, for the foresight of addresses. */
struct born {
	uint64_t address;
	uint32_t next_freed; /* of the same size class */
	uint32_t size_class;
};

struct state {
	uint8_t *end[COLUMN_COUNT];
	uint32_t count, born_count, stack_count, free_context;
	uint32_t time_from, thread_from; /* events in the block when the present run began */
	uint32_t thread_id;
	uint64_t tick, next_tick_ns, start_tick;
	uint64_t min_size_bytes, max_size_bytes;
	uint64_t last_old; /* block id freed last among those born before this block */
	/* Of the present thread, a copy of what is in threads[]; freed points into it. */
	struct foresee_history history;
	uint32_t last_older;
	uint64_t address;
	uint32_t last_younger;
	uint32_t *freed;
	uint32_t live_ends;
	struct foresee_recent recent;
	/* The section. */
	uint64_t first_event, first_block_id;
	uint32_t stack_end, thread_end;
	struct stream *refs;
	struct ends *ends; /* of older blocks, in the open block of events */
	/* Memory for the whole life. */
	uint32_t epoch, local_room;
	uint64_t *local; /* per stack id: epoch << 32 | local number */
	struct foresee_stack *stacks;
	struct foresee_live live;
	struct born *born;
	struct foresee_thread *threads;
	struct foresee_slot *foreseen; /* per history */
	bool addresses, free_stacks;
	/* Where blocks are culled: */
	bool culled;
	uint32_t marked;  /* events before that of the last entry in COLUMN_CULLED */
	uint64_t jumped;  /* numbers that are not in the open block */
	uint64_t *number; /* of each block that began in it */
};

struct encode {
	struct state state;
	struct ends ends;
	uint8_t *column[COLUMN_COUNT];
	uint8_t *memory;
};

/* Bytes an event can take at most in each column. */
static const uint8_t column_worst[COLUMN_COUNT] = {
	[COLUMN_TOKEN] = 1,   [COLUMN_TIME] = 14,       [COLUMN_THREAD] = 9,     [COLUMN_STACK] = 8,
	[COLUMN_SIZE] = 10,   [COLUMN_FREE] = 10,       [COLUMN_FREE_STACK] = 8, [COLUMN_EXTRA] = 2,
	[COLUMN_CULLED] = 14, [COLUMN_ADDRESS_HIT] = 1, [COLUMN_ADDRESS] = 10,
};

static int allocate(struct encode *e)
{
	struct state *s = &e->state;
	size_t total = 0;
	for (int i = 0; i < COLUMN_COUNT; i++)
		total += (size_t)column_worst[i] * FORMAT_BLOCK_EVENTS;
	e->memory = tm_grow_array(NULL, total, 1);
	s->stacks = tm_grow_array(NULL, FORMAT_BLOCK_EVENTS + 1, sizeof *s->stacks);
	s->born = tm_grow_array(NULL, FORMAT_BLOCK_EVENTS, sizeof *s->born);
	s->threads = tm_grow_array(NULL, COLUMN_THREADS, sizeof *s->threads);
	s->foreseen = tm_grow_array(NULL, COLUMN_HISTORIES, sizeof *s->foreseen);
	if (!foresee_live_init(&s->live) || !e->memory || !s->stacks || !s->born || !s->threads ||
	    !s->foreseen)
		return -ENOMEM;
	uint8_t *next = e->memory;
	for (int i = 0; i < COLUMN_COUNT; i++) {
		e->column[i] = next;
		next += (size_t)column_worst[i] * FORMAT_BLOCK_EVENTS;
	}
	return 0;
}

int encode_new(bool addresses, struct encode **ret_encode)
{
	struct encode *e = tm_alloc(sizeof *e);
	if (!e)
		return -ENOMEM;
	e->state.addresses = addresses;
	int rc = allocate(e);
	if (rc < 0) {
		encode_free(e);
		return rc;
	}
	e->state.ends = &e->ends;
	encode_section(e, false, NULL);
	*ret_encode = e;
	return 0;
}

struct encode *encode_free(struct encode *e)
{
	if (!e)
		return NULL;
	tm_free(e->memory);
	tm_free(e->state.stacks);
	foresee_live_done(&e->state.live);
	tm_free(e->state.born);
	tm_free(e->state.threads);
	tm_free(e->state.foreseen);
	tm_free(e->state.local);
	tm_free(e->state.number);
	ends_done(&e->ends);
	return tm_free(e);
}

void encode_section(struct encode *e, bool free_stacks, struct stream *refs)
{
	struct state *s = &e->state;
	s->free_stacks = free_stacks;
	s->refs = refs;
	s->first_event = s->first_block_id = 0;
	s->thread_end = 0;
	s->count = s->born_count = 0;
	s->culled = false;
	s->jumped = 0;
	s->tick = 0;
	encode_restart(e);
}

int encode_culled(struct encode *e)
{
	struct state *s = &e->state;
	if (!s->number)
		s->number = tm_grow_array(NULL, FORMAT_BLOCK_EVENTS, sizeof *s->number);
	s->culled = s->number;
	return s->culled ? 0 : -ENOMEM;
}

/* What is foreseen for this thread becomes the present. */
HOT void enter_thread(struct state *s, uint32_t thread_id)
{
	struct foresee_thread *thread = &s->threads[thread_id % COLUMN_THREADS];
	s->history = thread->history;
	s->last_older = thread->last_older;
	s->last_younger = thread->last_younger;
	s->address = thread->address;
	s->freed = thread->freed;
	s->live_ends = COLUMN_LIVE_ENDS + thread_id % COLUMN_THREADS;
	s->thread_id = thread_id;
}

HOT void leave_thread(struct state *s)
{
	struct foresee_thread *thread = &s->threads[s->thread_id % COLUMN_THREADS];
	thread->history = s->history;
	thread->last_older = s->last_older;
	thread->last_younger = s->last_younger;
	thread->address = s->address;
}

void encode_restart(struct encode *e)
{
	struct state *s = &e->state;
	s->first_event += s->count;
	s->first_block_id += s->born_count + s->jumped;
	s->count = s->born_count = s->marked = 0;
	s->jumped = 0;
	for (int i = 0; i < COLUMN_COUNT; i++)
		s->end[i] = e->column[i];
	s->epoch++;
	s->stacks[0] = (struct foresee_stack){0};
	s->stack_count = 1;
	s->free_context = 0;
	s->time_from = s->thread_from = 0;
	s->start_tick = s->tick;
	s->next_tick_ns = (s->tick + 1) * COLUMN_TICK_NS;
	s->min_size_bytes = UINT64_MAX;
	s->max_size_bytes = 0;
	s->last_old = s->first_block_id;
	foresee_threads_start(s->threads, &s->live);
	memset(s->foreseen, 0, COLUMN_HISTORIES * sizeof *s->foreseen);
	s->recent.count = 0;
	ends_clear(&e->ends);
	enter_thread(s, 0);
}

/*
 * A varint. Whether it has one byte or two is as good as random, so it is no branch: both are
 * written, and the second is overwritten if there is but one. Adding what lies above the first
 * seven bits to itself shifts it past the bit that says that more comes.
 */
HOT void put(struct state *s, enum column column, uint64_t value)
{
	uint8_t *end = s->end[column];
	if (UNLIKELY(value > 0x3fff)) {
		s->end[column] += varint_put(end, value);
		return;
	}
	unsigned more = value > 0x7f;
	unsigned both = ((unsigned)value + ((unsigned)value & 0x3f80)) | more << 7;
	end[0] = (uint8_t)both;
	end[1] = (uint8_t)(both >> 8);
	s->end[column] = end + 1 + more;
}

/* A byte for most: two numbers in a nibble each; what is too large follows. */
HOT void put_nibbles(struct state *s, enum column column, uint64_t first, uint64_t second)
{
	uint64_t high = first < COLUMN_ESCAPE ? first : COLUMN_ESCAPE;
	uint64_t low = second < COLUMN_ESCAPE ? second : COLUMN_ESCAPE;
	*s->end[column]++ = (uint8_t)(high << 4 | low);
	if (high == COLUMN_ESCAPE)
		put(s, column, first - COLUMN_ESCAPE);
	if (low == COLUMN_ESCAPE)
		put(s, column, second - COLUMN_ESCAPE);
}

HOT void put_time(struct state *s, uint64_t time_ns)
{
	uint64_t tick = time_ns / COLUMN_TICK_NS;
	if (s->count == 0) {
		/* Time never falls, not from block to block either. */
		if (tick < s->tick)
			tick = s->tick;
		s->start_tick = tick;
	} else {
		put_nibbles(s, COLUMN_TIME, s->count - s->time_from - 1, tick - s->tick - 1);
	}
	s->time_from = s->count;
	s->tick = tick;
	s->next_tick_ns = (tick + 1) * COLUMN_TICK_NS;
}

/* Another thread; the first of a block is written as it is. */
HOT void put_thread(struct state *s, uint32_t thread_id)
{
	unsigned rank = foresee_recent_use(&s->recent, thread_id);
	if (s->count == 0)
		put(s, COLUMN_THREAD, thread_id);
	else
		put_nibbles(s, COLUMN_THREAD, s->count - s->thread_from - 1,
			    rank < COLUMN_ESCAPE ? rank : COLUMN_ESCAPE + (uint64_t)thread_id);
	leave_thread(s);
	enter_thread(s, thread_id);
	s->thread_from = s->count;
	if (thread_id >= s->thread_end)
		s->thread_end = thread_id + 1;
}

/* A longer local[], zeros where it is new; NULL without memory. */
static uint64_t *grow_local(uint64_t *old, uint32_t old_room, uint32_t room)
{
	uint64_t *local = tm_grow_array(old, room, sizeof *local);
	if (local)
		memset(local + old_room, 0, (room - old_room) * sizeof *local);
	return local;
}

/* Stacks that come unforeseen must exist, and have their place in local[]. */
HOT int check_stack(struct state *s, uint32_t stack_id)
{
	if (stack_id >= s->stack_end)
		return -EINVAL;
	if (stack_id < s->local_room)
		return 0;
	uint32_t room = stack_id < UINT32_MAX / 2 ? (stack_id + 512) * 2 : UINT32_MAX;
	uint64_t *local = grow_local(s->local, s->local_room, room);
	if (!local)
		return -ENOMEM;
	s->local = local;
	s->local_room = room;
	return 0;
}

/* The local number of a stack that was not foreseen, written to the column with `bias` added. */
HOT uint32_t put_stack(struct state *s, enum column column, unsigned bias, uint32_t stack_id)
{
	uint64_t known = s->local[stack_id];
	if (known >> 32 == s->epoch) {
		put(s, column, (uint32_t)known + bias);
		return (uint32_t)known;
	}
	uint32_t number = s->stack_count++;
	int64_t step = (int64_t)stack_id - (int64_t)s->stacks[number - 1].stack_id;
	put(s, column, number + bias);
	put(s, column, varint_zigzag(step));
	s->stacks[number] = (struct foresee_stack){.stack_id = stack_id};
	s->local[stack_id] = (uint64_t)s->epoch << 32 | number;
	return number;
}

/* Writes an address that was not foreseen; how, for COLUMN_ADDRESS_HIT. */
HOT uint8_t put_step(struct state *s, int64_t step)
{
	bool odd = step & 15;
	put(s, COLUMN_ADDRESS, varint_zigzag(odd ? step : step >> 4));
	return odd ? COLUMN_ADDRESS_ODD : COLUMN_ADDRESS_MISS;
}

HOT void put_address(struct state *s, struct foresee_stack *stack, uint64_t address,
		     uint64_t size_bytes)
{
	unsigned size_class = column_size_class(size_bytes);
	uint32_t freed = s->freed[size_class];
	bool is_freed = freed != UINT32_MAX && s->born[freed].address == address;
	bool is_next = !is_freed && address == s->address;
	if (freed != UINT32_MAX && !is_next)
		s->freed[size_class] = s->born[freed].next_freed;
	uint8_t hit = is_freed ? COLUMN_ADDRESS_FREED : COLUMN_ADDRESS_NEXT;
	if (!is_freed && !is_next)
		hit = put_step(s, (int64_t)(address - stack->address));
	*s->end[COLUMN_ADDRESS_HIT]++ = hit;
	s->born[s->born_count].address = address;
	s->born[s->born_count].size_class = size_class;
	s->address = column_next_address(address, size_bytes);
	stack->address = address;
}

/* The local number of the event's stack, and how it was foreseen; or UINT32_MAX and *ret_error. */
HOT uint32_t find_stack(struct state *s, uint32_t stack_id, uint32_t foreseen, uint8_t *ret_how,
			int *ret_error)
{
	uint32_t last = (uint32_t)(s->history.stacks & COLUMN_STACK_MASK);
	uint32_t follower = s->stacks[last].follower;
	*ret_how = TOKEN_BY_HISTORY;
	if (s->stacks[foreseen].stack_id == stack_id) {
		s->stacks[last].follower = foreseen;
		return foreseen;
	}
	*ret_how = TOKEN_BY_STACK;
	if (s->stacks[follower].stack_id == stack_id)
		return follower;
	*ret_how = TOKEN_MISS;
	*ret_error = check_stack(s, stack_id);
	if (*ret_error < 0)
		return UINT32_MAX;
	return s->stacks[last].follower = put_stack(s, COLUMN_STACK, 0, stack_id);
}

HOT uint8_t find_size(struct state *s, const struct foresee_slot *foreseen,
		      struct foresee_stack *stack, uint64_t size_bytes)
{
	/* What is foreseen was there before, but for the zeros that all begins with. */
	uint8_t how = foreseen->size_bytes == size_bytes ? TOKEN_BY_HISTORY : TOKEN_BY_STACK;
	if (how == TOKEN_BY_STACK && stack->size_bytes != size_bytes) {
		how = TOKEN_MISS;
		put(s, COLUMN_SIZE, size_bytes);
		/* The header has sizes, not size words. */
		if (UNLIKELY(trace_word_sampled(size_bytes)))
			size_bytes = trace_word_size(size_bytes);
		s->max_size_bytes = size_bytes > s->max_size_bytes ? size_bytes : s->max_size_bytes;
	}
	if (how == TOKEN_MISS || size_bytes == 0)
		s->min_size_bytes = size_bytes < s->min_size_bytes ? size_bytes : s->min_size_bytes;
	return how;
}

HOT void put_extra(struct state *s, struct foresee_stack *stack, const struct trace_event *event)
{
	*s->end[COLUMN_EXTRA]++ = event->api;
	*s->end[COLUMN_EXTRA]++ = event->align_log2;
	stack->api = event->api;
	stack->align_log2 = event->align_log2;
}

HOT void put_mark(struct state *s, enum culled_mark mark)
{
	put(s, COLUMN_CULLED, 2 * (uint64_t)(s->count - s->marked) + mark);
	s->marked = s->count;
}

/* The number of a block that begins: those before it that are not here are jumped over. */
HOT bool take_number(struct state *s, uint64_t block_id)
{
	uint64_t next = s->first_block_id + s->born_count + s->jumped;
	if (block_id < next)
		return false;
	if (block_id > next) {
		put_mark(s, CULLED_JUMP);
		put(s, COLUMN_CULLED, block_id - next);
		s->jumped += block_id - next;
	}
	s->number[s->born_count] = block_id;
	return true;
}

/* Which of the blocks that began here has this number; UINT64_MAX: none. */
HOT uint64_t find_number(const struct state *s, uint64_t block_id)
{
	uint32_t low = 0, high = s->born_count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (s->number[middle] < block_id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < s->born_count && s->number[low] == block_id ? low : UINT64_MAX;
}

HOT int alloc_event(struct state *s, const struct trace_event *event, unsigned kind, bool culled)
{
	struct foresee_slot *foreseen = &s->foreseen[foresee_history_slot(&s->history)];
	uint8_t how = 0;
	int error = 0;
	uint32_t number = find_stack(s, event->stack_id, foreseen->stack, &how, &error);
	if (error < 0)
		return error;
	struct foresee_stack *stack = &s->stacks[number];
	uint8_t how_size = find_size(s, foreseen, stack, event->size_bytes);
	uint8_t token = (uint8_t)(kind * TOKEN_ALLOC_KIND + how * 3u + how_size);
	*foreseen = (struct foresee_slot){number, (uint32_t)event->size_bytes};
	stack->size_bytes = event->size_bytes;
	if (stack->api != event->api || stack->align_log2 != event->align_log2) {
		token |= TOKEN_EXTRA;
		put_extra(s, stack, event);
	}
	*s->end[COLUMN_TOKEN]++ = token;
	foresee_history_alloc(&s->history, number);
	if (kind > 1) {
		s->ends->undone += kind == 2;
		return 0;
	}
	if (culled ? !take_number(s, event->block_id)
		   : event->block_id != s->first_block_id + s->born_count)
		return -EINVAL;
	if (s->addresses)
		put_address(s, stack, event->address & TRACE_ADDRESS_MASK, event->size_bytes);
	foresee_live_add(&s->live, s->live_ends, s->born_count++);
	return 0;
}

HOT unsigned free_local(struct state *s, uint32_t block)
{
	unsigned code = TOKEN_FREE_LOCAL;
	uint32_t older = s->live.older[block], younger = s->live.younger[block];
	if (younger == s->live_ends && older != COLUMN_LIVE_NOT)
		code = TOKEN_FREE_TOP;
	else if (block == s->last_younger)
		code = TOKEN_FREE_NEXT;
	else if (block == s->last_older)
		code = TOKEN_FREE_PREVIOUS;
	else
		put(s, COLUMN_FREE, s->born_count - 1 - block);
	if (older == COLUMN_LIVE_NOT)
		return code;
	s->last_older = older;
	s->last_younger = younger;
	foresee_live_remove(&s->live, block);
	if (s->addresses) {
		unsigned size_class = s->born[block].size_class;
		s->born[block].next_freed = s->freed[size_class];
		s->freed[size_class] = block;
	}
	return code;
}

HOT unsigned free_old(struct state *s, const struct trace_event *event)
{
	int64_t step = (int64_t)(event->block_id - s->last_old);
	s->last_old = event->block_id;
	const struct trace_old_end row = {
		.block_id = event->block_id,
		.size_bytes = event->size_bytes,
		.stack_id = event->stack_id,
		.is_temporary = event->flags & TRACE_EVENT_TEMPORARY,
	};
	ends_add(s->ends, &row);
	if (event->flags & TRACE_EVENT_OLD && s->refs && stream_bytes(s->refs) < ENCODE_REFS_BYTES)
		rows_put_ref(s->refs, s->first_event + s->count, event->stack_id,
			     event->size_bytes);
	if (step == 1)
		return TOKEN_FREE_OLD_NEXT;
	if (step == -1)
		return TOKEN_FREE_OLD_BEFORE;
	put(s, COLUMN_FREE, varint_zigzag(step));
	return TOKEN_FREE_OLD;
}

HOT int put_free_stack(struct state *s, uint32_t stack_id)
{
	uint32_t number = s->stacks[s->free_context].follower;
	if (s->stacks[number].stack_id == stack_id) {
		put(s, COLUMN_FREE_STACK, 0);
	} else {
		int rc = check_stack(s, stack_id);
		if (rc < 0)
			return rc;
		number = put_stack(s, COLUMN_FREE_STACK, 1, stack_id);
		s->stacks[s->free_context].follower = number;
	}
	s->free_context = number;
	return 0;
}

HOT int free_event(struct state *s, const struct trace_event *event, unsigned kind, bool culled)
{
	unsigned code = TOKEN_FREE_UNKNOWN;
	uint64_t block =
		culled ? find_number(s, event->block_id) : event->block_id - s->first_block_id;
	/* Whoever repairs a trace may have made another kind of end of it. */
	if (culled && kind == 0 && event->flags & TRACE_EVENT_LASTING)
		put_mark(s, CULLED_LASTING);
	if (block < s->born_count)
		code = free_local(s, (uint32_t)block);
	else if (event->block_id < s->first_block_id)
		code = free_old(s, event);
	else if (event->block_id != TRACE_NO_BLOCK)
		return -EINVAL;
	*s->end[COLUMN_TOKEN]++ = (uint8_t)(TOKEN_FREE + kind * TOKEN_FREE_KIND + code);
	foresee_history_free(&s->history, kind);
	return s->free_stacks ? put_free_stack(s, event->free_stack_id) : 0;
}

HOT int one_event(struct state *s, const struct trace_event *event, bool culled)
{
	/* op -> kind; those of frees are marked. */
	enum { ENDS = 16 };
	static const uint8_t kinds[TRACE_OP_COUNT] = {
		[TRACE_ALLOC] = 0,
		[TRACE_REALLOC_ALLOC] = 1,
		[TRACE_REALLOC_UNDO] = 2,
		[TRACE_ALLOC_FAIL] = 3,
		[TRACE_FREE] = ENDS | 0,
		[TRACE_REALLOC_FREE] = ENDS | 1,
		[TRACE_FREE_UNSEEN] = ENDS | 2,
		[TRACE_FREE_OLDER] = ENDS | 3,
	};
	if (UNLIKELY(event->op >= TRACE_OP_COUNT))
		return -EINVAL;
	if (UNLIKELY(event->time_ns >= s->next_tick_ns))
		put_time(s, event->time_ns);
	if (event->thread_id != s->thread_id)
		put_thread(s, event->thread_id);
	int rc;
	/* Plain ones apart: for them the kind is a constant. */
	if (event->op == TRACE_FREE)
		rc = free_event(s, event, 0, culled);
	else if (LIKELY(event->op == TRACE_ALLOC))
		rc = alloc_event(s, event, 0, culled);
	else if (kinds[event->op] & ENDS)
		rc = free_event(s, event, kinds[event->op] & 3, culled);
	else
		rc = alloc_event(s, event, kinds[event->op], culled);
	s->count++;
	return rc;
}

int encode_events(struct encode *e, uint32_t stack_end, const struct trace_event *events,
		  size_t count, size_t *ret_taken)
{
	struct state s = e->state;
	size_t room = FORMAT_BLOCK_EVENTS - s.count, taken = count < room ? count : room;
	const struct trace_event *end = events + taken;
	int rc = 0;
	s.stack_end = stack_end;
	if (taken > 0 && s.count == 0) {
		put_time(&s, events->time_ns);
		put_thread(&s, events->thread_id);
	}
	/* Two loops, so that what is seldom asked for costs the other nothing. */
	while (!s.culled && events < end && LIKELY(rc == 0))
		rc = one_event(&s, events++, false);
	while (s.culled && events < end && LIKELY(rc == 0))
		rc = one_event(&s, events++, true);
	e->state = s;
	*ret_taken = taken;
	return rc;
}

int encode_skip(struct encode *e, uint64_t event, uint64_t block_id)
{
	struct state *s = &e->state;
	if (s->count > 0 || event < s->first_event || block_id < s->first_block_id)
		return -EINVAL;
	s->first_event = event;
	s->first_block_id = s->last_old = block_id;
	return 0;
}

bool encode_full(const struct encode *e)
{
	return e->state.count == FORMAT_BLOCK_EVENTS;
}

uint32_t encode_thread_end(const struct encode *e)
{
	return e->state.thread_end;
}

size_t encode_count(const struct encode *e)
{
	return e->state.count;
}

void encode_summary(const struct encode *e, struct format_block_header *header)
{
	const struct state *s = &e->state;
	header->flags |= s->free_stacks ? FORMAT_FREE_STACKS : 0;
	header->first_ordinal = s->first_event;
	header->count = s->count;
	header->first_block_id = s->first_block_id;
	header->start_ns = s->start_tick * COLUMN_TICK_NS;
	header->end_ns = s->tick * COLUMN_TICK_NS;
	header->min_size_bytes = s->min_size_bytes;
	header->max_size_bytes = s->max_size_bytes;
}

bool encode_ends(const struct encode *e, uint32_t stack_end, struct format_block_header *header,
		 struct bytes *out)
{
	uint32_t events = header->count;
	if (e->ends.failed)
		return false;
	ends_put(out, &e->ends, stack_end, header);
	return !out->failed && header->count <= events;
}

void encode_piece(const struct encode *e, bool addresses, uint32_t from[COLUMN_COUNT],
		  struct bytes *out)
{
	int first = addresses ? COLUMN_EVENTS_COUNT : 0;
	int last = addresses ? COLUMN_COUNT : COLUMN_EVENTS_COUNT - !e->state.culled;
	struct span columns[COLUMN_COUNT];
	for (int i = first; i < last; i++) {
		size_t length = (size_t)(e->state.end[i] - e->column[i]);
		columns[i] = span_of(e->column[i] + from[i], length - from[i]);
		from[i] = (uint32_t)length;
	}
	container_put(out, columns + first, (size_t)(last - first));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events to columns: the hot part of writing. Each column has room for the
 * worst case of a whole block, so that nothing is checked per event; memory
 * that is never needed is never touched.
 */
#include "trace/encode.h"

#include "base/memory.h"
#include "base/varint.h"
#include "trace/rows.h"

#include <errno.h>

struct encode {
	/* The open block. */
	uint32_t count, born, stack_count, context, free_context;
	uint32_t time_run, thread_run, thread_id;
	uint64_t tick, next_tick_ns, start_tick;
	uint64_t min_size_bytes, max_size_bytes;
	uint64_t last_old;            /* block id freed last among those born before this block */
	struct column_live last_live; /* neighbours of the block freed last */
	uint64_t address;             /* address expected after the youngest block */
	uint8_t *end[COLUMN_COUNT];
	/* The section. */
	uint64_t first_event, first_block_id;
	uint32_t stack_end, thread_end;
	bool addresses, free_stacks;
	struct stream *refs;
	/* Memory for the whole life. */
	uint32_t epoch;
	uint64_t *local; /* per stack id: epoch << 32 | local number */
	size_t local_room;
	uint8_t *column[COLUMN_COUNT];
	struct column_stack *stacks;
	struct column_live *live;
	uint64_t *born_address;
	uint8_t *born_class; /* size class of each block, for its address */
	uint32_t *next_freed;
	uint32_t freed[COLUMN_SIZE_CLASSES];
	uint8_t *memory;
};

/* Bytes an event can take at most in each column. */
static const uint8_t column_worst[COLUMN_COUNT] = {
	[COLUMN_TOKEN] = 1,      [COLUMN_TIME] = 13, [COLUMN_THREAD] = 8,
	[COLUMN_STACK] = 8,      [COLUMN_SIZE] = 10, [COLUMN_FREE] = 10,
	[COLUMN_FREE_STACK] = 8, [COLUMN_EXTRA] = 2, [COLUMN_ADDRESS_HIT] = 1,
	[COLUMN_ADDRESS] = 10,
};

enum { ENCODE_LIVE_ROOM = FORMAT_BLOCK_EVENTS + 2 };

static int allocate(struct encode *e)
{
	size_t total = 0;
	for (int i = 0; i < COLUMN_COUNT; i++)
		total += (size_t)column_worst[i] * FORMAT_BLOCK_EVENTS;
	e->memory = tm_grow_array(NULL, total, 1);
	e->stacks = tm_grow_array(NULL, FORMAT_BLOCK_EVENTS + 1, sizeof *e->stacks);
	e->live = tm_grow_array(NULL, ENCODE_LIVE_ROOM, sizeof *e->live);
	e->born_address = tm_grow_array(NULL, FORMAT_BLOCK_EVENTS, sizeof *e->born_address);
	e->born_class = tm_grow_array(NULL, FORMAT_BLOCK_EVENTS, sizeof *e->born_class);
	e->next_freed = tm_grow_array(NULL, FORMAT_BLOCK_EVENTS, sizeof *e->next_freed);
	if (!e->memory || !e->stacks || !e->live || !e->born_address || !e->born_class ||
	    !e->next_freed)
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
	e->addresses = addresses;
	int rc = allocate(e);
	if (rc < 0) {
		encode_free(e);
		return rc;
	}
	encode_section(e, false, NULL);
	*ret_encode = e;
	return 0;
}

struct encode *encode_free(struct encode *e)
{
	if (!e)
		return NULL;
	tm_free(e->memory);
	tm_free(e->stacks);
	tm_free(e->live);
	tm_free(e->born_address);
	tm_free(e->born_class);
	tm_free(e->next_freed);
	tm_free(e->local);
	return tm_free(e);
}

void encode_section(struct encode *e, bool free_stacks, struct stream *refs)
{
	e->free_stacks = free_stacks;
	e->refs = refs;
	e->first_event = e->first_block_id = 0;
	e->thread_end = 0;
	e->count = e->born = 0;
	e->tick = 0;
	encode_restart(e);
}

void encode_restart(struct encode *e)
{
	e->first_event += e->count;
	e->first_block_id += e->born;
	e->count = e->born = 0;
	for (int i = 0; i < COLUMN_COUNT; i++)
		e->end[i] = e->column[i];
	e->epoch++;
	e->stacks[0] = (struct column_stack){0};
	e->stack_count = 1;
	e->context = e->free_context = 0;
	e->time_run = e->thread_run = 0;
	e->start_tick = e->tick;
	e->next_tick_ns = (e->tick + 1) * COLUMN_TICK_NS;
	e->min_size_bytes = UINT64_MAX;
	e->max_size_bytes = 0;
	e->last_old = e->first_block_id;
	e->live[COLUMN_LIVE_ENDS] = (struct column_live){COLUMN_LIVE_ENDS, COLUMN_LIVE_ENDS};
	e->last_live = e->live[COLUMN_LIVE_ENDS];
	e->address = 0;
	for (int i = 0; i < COLUMN_SIZE_CLASSES; i++)
		e->freed[i] = COLUMN_LIVE_NOT;
}

static inline void put(struct encode *e, enum column column, uint64_t value)
{
	e->end[column] += varint_put(e->end[column], value);
}

static void put_time(struct encode *e, uint64_t time_ns)
{
	uint64_t tick = time_ns / COLUMN_TICK_NS;
	if (e->count == 0) {
		e->start_tick = tick;
	} else {
		put(e, COLUMN_TIME, e->time_run - 1);
		put(e, COLUMN_TIME, tick - e->tick - 1);
	}
	e->time_run = 0;
	e->tick = tick;
	e->next_tick_ns = (tick + 1) * COLUMN_TICK_NS;
}

static void put_thread(struct encode *e, uint32_t thread_id)
{
	if (e->count > 0)
		put(e, COLUMN_THREAD, e->thread_run - 1);
	put(e, COLUMN_THREAD, thread_id);
	e->thread_run = 0;
	e->thread_id = thread_id;
	if (thread_id >= e->thread_end)
		e->thread_end = thread_id + 1;
}

static int grow_local(struct encode *e, uint32_t stack_id)
{
	size_t room = e->local_room ? e->local_room : 1024;
	while (room <= stack_id)
		room *= 2;
	uint64_t *local = tm_grow_array(e->local, room, sizeof *local);
	if (!local)
		return -ENOMEM;
	memset(local + e->local_room, 0, (room - e->local_room) * sizeof *local);
	e->local = local;
	e->local_room = room;
	return 0;
}

/* Stacks that come unforeseen must exist, and have their place in local[]. */
static inline int check_stack(struct encode *e, uint32_t stack_id)
{
	if (stack_id >= e->stack_end)
		return -EINVAL;
	return stack_id < e->local_room ? 0 : grow_local(e, stack_id);
}

/* The local number of a stack that was not foreseen, written to the column with `bias` added. */
static uint32_t put_stack(struct encode *e, enum column column, unsigned bias, uint32_t stack_id)
{
	uint64_t known = e->local[stack_id];
	if (known >> 32 == e->epoch) {
		put(e, column, (uint32_t)known + bias);
		return (uint32_t)known;
	}
	uint32_t number = e->stack_count++;
	int64_t step = (int64_t)stack_id - (int64_t)e->stacks[number - 1].stack_id;
	put(e, column, number + bias);
	put(e, column, varint_zigzag(step));
	e->stacks[number] = (struct column_stack){.stack_id = stack_id};
	e->local[stack_id] = (uint64_t)e->epoch << 32 | number;
	return number;
}

static void put_address(struct encode *e, uint64_t address, uint64_t size_bytes)
{
	unsigned class = column_size_class(size_bytes);
	uint32_t freed = e->freed[class];
	uint8_t hit = 2;
	if (freed != COLUMN_LIVE_NOT && e->born_address[freed] == address)
		hit = 0;
	else if (address == e->address)
		hit = 1;
	if (freed != COLUMN_LIVE_NOT && hit != 1)
		e->freed[class] = e->next_freed[freed];
	if (hit == 2)
		put(e, COLUMN_ADDRESS, varint_zigzag((int64_t)(address - e->address)));
	*e->end[COLUMN_ADDRESS_HIT]++ = hit;
	e->born_address[e->born] = address;
	e->born_class[e->born] = (uint8_t) class;
	e->address = address + (size_bytes + 23) / 16 * 16;
}

static inline int alloc_event(struct encode *e, const struct trace_event *event, unsigned kind)
{
	uint8_t token = (uint8_t)(kind << 2);
	uint32_t number = e->stacks[e->context].follower;
	if (e->stacks[number].stack_id != event->stack_id) {
		int rc = check_stack(e, event->stack_id);
		if (rc < 0)
			return rc;
		token |= TOKEN_STACK_MISS;
		number = put_stack(e, COLUMN_STACK, 0, event->stack_id);
		e->stacks[e->context].follower = number;
	}
	struct column_stack *stack = &e->stacks[number];
	if (stack->size_bytes != event->size_bytes) {
		token |= TOKEN_SIZE_MISS;
		put(e, COLUMN_SIZE, event->size_bytes);
		stack->size_bytes = event->size_bytes;
	}
	if (stack->api != event->api || stack->align_log2 != event->align_log2) {
		token |= TOKEN_EXTRA;
		*e->end[COLUMN_EXTRA]++ = event->api;
		*e->end[COLUMN_EXTRA]++ = event->align_log2;
		stack->api = event->api;
		stack->align_log2 = event->align_log2;
	}
	*e->end[COLUMN_TOKEN]++ = token;
	e->context = number;
	if (kind > 1)
		return 0;
	if (event->block_id != e->first_block_id + e->born)
		return -EINVAL;
	if (event->size_bytes < e->min_size_bytes)
		e->min_size_bytes = event->size_bytes;
	if (event->size_bytes > e->max_size_bytes)
		e->max_size_bytes = event->size_bytes;
	if (e->addresses)
		put_address(e, event->address, event->size_bytes);
	column_live_add(e->live, e->born++);
	return 0;
}

static inline unsigned free_local(struct encode *e, uint32_t block)
{
	unsigned code = TOKEN_FREE_LOCAL;
	if (block == e->live[COLUMN_LIVE_ENDS].older)
		code = TOKEN_FREE_TOP;
	else if (block == e->last_live.younger)
		code = TOKEN_FREE_NEXT;
	else if (block == e->last_live.older)
		code = TOKEN_FREE_PREVIOUS;
	else
		put(e, COLUMN_FREE, e->born - 1 - block);
	if (e->live[block].older == COLUMN_LIVE_NOT)
		return code;
	e->last_live = e->live[block];
	column_live_remove(e->live, block);
	if (e->addresses) {
		unsigned class = e->born_class[block];
		e->next_freed[block] = e->freed[class];
		e->freed[class] = block;
	}
	return code;
}

static unsigned free_old(struct encode *e, const struct trace_event *event)
{
	int64_t step = (int64_t)(event->block_id - e->last_old);
	e->last_old = event->block_id;
	if (event->flags & TRACE_EVENT_OLD && e->refs)
		rows_put_ref(e->refs, e->first_event + e->count, event->stack_id,
			     event->size_bytes);
	if (step == 1)
		return TOKEN_FREE_OLD_NEXT;
	if (step == -1)
		return TOKEN_FREE_OLD_BEFORE;
	put(e, COLUMN_FREE, varint_zigzag(step));
	return TOKEN_FREE_OLD;
}

static int put_free_stack(struct encode *e, uint32_t stack_id)
{
	uint32_t number = e->stacks[e->free_context].follower;
	if (e->stacks[number].stack_id == stack_id) {
		put(e, COLUMN_FREE_STACK, 0);
	} else {
		int rc = check_stack(e, stack_id);
		if (rc < 0)
			return rc;
		number = put_stack(e, COLUMN_FREE_STACK, 1, stack_id);
		e->stacks[e->free_context].follower = number;
	}
	e->free_context = number;
	return 0;
}

static inline int free_event(struct encode *e, const struct trace_event *event, unsigned kind)
{
	unsigned code = TOKEN_FREE_UNKNOWN;
	if (event->block_id >= e->first_block_id + e->born) {
		if (event->block_id != TRACE_NO_BLOCK)
			return -EINVAL;
	} else if (event->block_id >= e->first_block_id) {
		code = free_local(e, (uint32_t)(event->block_id - e->first_block_id));
	} else {
		code = free_old(e, event);
	}
	*e->end[COLUMN_TOKEN]++ = (uint8_t)(TOKEN_FREE | kind << 3 | code);
	return e->free_stacks ? put_free_stack(e, event->free_stack_id) : 0;
}

int encode_events(struct encode *e, uint32_t stack_end, const struct trace_event *events,
		  size_t count, size_t *ret_taken)
{
	/* op -> kind; kinds of frees are marked by TOKEN_FREE. */
	static const uint8_t kinds[TRACE_OP_COUNT] = {
		[TRACE_ALLOC] = 0,
		[TRACE_REALLOC_ALLOC] = 1,
		[TRACE_REALLOC_UNDO] = 2,
		[TRACE_ALLOC_FAIL] = 3,
		[TRACE_FREE] = TOKEN_FREE | 0,
		[TRACE_REALLOC_FREE] = TOKEN_FREE | 1,
		[TRACE_FREE_UNSEEN] = TOKEN_FREE | 2,
		[TRACE_FREE_OLDER] = TOKEN_FREE | 3,
	};
	e->stack_end = stack_end;
	size_t room = FORMAT_BLOCK_EVENTS - e->count, taken = count < room ? count : room;
	for (size_t i = 0; i < taken; i++) {
		const struct trace_event *event = &events[i];
		if (event->op >= TRACE_OP_COUNT)
			return -EINVAL;
		if (event->time_ns >= e->next_tick_ns || e->count == 0)
			put_time(e, event->time_ns);
		if (event->thread_id != e->thread_id || e->count == 0)
			put_thread(e, event->thread_id);
		e->time_run++;
		e->thread_run++;
		unsigned kind = kinds[event->op];
		int rc = kind & TOKEN_FREE ? free_event(e, event, kind & 3)
					   : alloc_event(e, event, kind);
		if (rc < 0)
			return rc;
		e->count++;
	}
	*ret_taken = taken;
	return 0;
}

bool encode_full(const struct encode *e)
{
	return e->count == FORMAT_BLOCK_EVENTS;
}

uint32_t encode_thread_end(const struct encode *e)
{
	return e->thread_end;
}

size_t encode_count(const struct encode *e)
{
	return e->count;
}

void encode_summary(const struct encode *e, struct format_block_header *header)
{
	header->flags |= e->free_stacks ? FORMAT_FREE_STACKS : 0;
	header->first_ordinal = e->first_event;
	header->count = e->count;
	header->first_block_id = e->first_block_id;
	header->start_ns = e->start_tick * COLUMN_TICK_NS;
	header->end_ns = e->tick * COLUMN_TICK_NS;
	header->min_size_bytes = e->min_size_bytes;
	header->max_size_bytes = e->max_size_bytes;
}

void encode_piece(const struct encode *e, bool addresses, uint32_t from[COLUMN_COUNT],
		  struct bytes *out)
{
	int first = addresses ? COLUMN_EVENTS_COUNT : 0;
	int last = addresses ? COLUMN_COUNT : COLUMN_EVENTS_COUNT;
	bytes_put_varint(out, (uint64_t)(last - first));
	for (int i = first; i < last; i++)
		bytes_put_varint(out, (uint64_t)(e->end[i] - e->column[i]) - from[i]);
	for (int i = first; i < last; i++) {
		size_t length = (size_t)(e->end[i] - e->column[i]);
		bytes_put(out, e->column[i] + from[i], length - from[i]);
		from[i] = (uint32_t)length;
	}
}

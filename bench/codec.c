/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What storing events costs: nanoseconds and bytes per event, and where the
 * bytes are. Streams are recorded traces given as arguments, and made-up ones.
 * One core, no disk. Each piece of work is timed alone, and the least time of
 * several rounds counts for it, so that other work on the machine hardly shows.
 *
 *	codec [-r ROUNDS] [TRACE.tide ...]
 */
#include "base/clock.h"
#include "base/memory.h"
#include "trace/block.h"
#include "trace/container.h"
#include "trace/decode.h"
#include "trace/encode.h"
#include "trace/trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

struct events {
	struct trace_event *list;
	size_t count;
	uint32_t stack_end;
};

/* The least time of each piece of work; the same pieces come in each round. */
struct times {
	double *least_ns;
	size_t count, room;
};

struct figures {
	struct times encode, pack, decode;
	double bytes, address_bytes;
	double raw[COLUMN_COUNT], packed[COLUMN_COUNT];
};

static const char *const column_names[COLUMN_COUNT] = {
	[COLUMN_TOKEN] = "token",     [COLUMN_TIME] = "time",   [COLUMN_THREAD] = "thread",
	[COLUMN_STACK] = "stack",     [COLUMN_SIZE] = "size",   [COLUMN_FREE] = "free",
	[COLUMN_FREE_STACK] = "fstk", [COLUMN_EXTRA] = "extra", [COLUMN_ADDRESS_HIT] = "ahit",
	[COLUMN_ADDRESS] = "addr",
};

static void die(const char *text)
{
	fprintf(stderr, "codec: %s\n", text);
	exit(1);
}

static void note(struct times *times, uint64_t since_ns)
{
	double ns = (double)(clock_steady_ns() - since_ns);
	if (times->count == times->room) {
		size_t room = times->room ? times->room * 2 : 1024;
		times->least_ns = tm_grow_array(times->least_ns, room, sizeof(double));
		if (!times->least_ns)
			die("no memory");
		for (size_t i = times->room; i < room; i++)
			times->least_ns[i] = 1e12;
		times->room = room;
	}
	double *least = &times->least_ns[times->count++];
	if (ns < *least)
		*least = ns;
}

/* The sum, per event; the memory is given back. */
static double per_event(struct times *times, size_t events)
{
	double sum = 0;
	for (size_t i = 0; i < times->count; i++)
		sum += times->least_ns[i];
	tm_free(times->least_ns);
	return sum / (double)events;
}

static struct events load(const char *path)
{
	struct trace_reader *r = NULL;
	struct tm_error err = {0};
	struct events events = {0};
	const struct trace_stack *stacks;
	size_t stack_count = 0;
	if (trace_reader_open(path, &r, &err) < 0 ||
	    trace_reader_stacks(r, &stacks, &stack_count, &err) < 0)
		die(err.text);
	events.stack_end = (uint32_t)stack_count;
	for (size_t i = 0; i < trace_reader_event_block_count(r); i++) {
		struct trace_event_block block;
		if (trace_reader_event_block(r, i, &block) < 0)
			die("no such block");
		events.list = tm_grow_array(events.list, events.count + block.event_count,
					    sizeof *events.list);
		if (!events.list || trace_reader_events(r, i, events.list + events.count, &err) < 0)
			die(err.text);
		events.count += block.event_count;
	}
	trace_reader_close(r);
	return events;
}

/* A thousand stacks that call each other at random, a pool of blocks freed at random. */
static struct events make_up(size_t count, unsigned live_max)
{
	struct events events = {.count = count, .stack_end = 1001};
	struct trace_event *live = tm_alloc_array(live_max, sizeof *live);
	events.list = tm_alloc_array(count, sizeof *events.list);
	if (!live || !events.list)
		die("no memory");
	uint64_t random = 88172645463325252u, block_id = 0, time_ns = 0;
	for (size_t i = 0; i < count; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		struct trace_event *event = &events.list[i], *slot = &live[random % live_max];
		if (slot->op == TRACE_FREE && slot->size_bytes > 0) {
			*event = *slot;
			slot->size_bytes = 0;
		} else {
			*event = (struct trace_event){
				.op = TRACE_ALLOC,
				.block_id = block_id++,
				.size_bytes = 16 + (random >> 20) % 32 * 16,
				.stack_id = 1 + (uint32_t)(random >> 40) % 1000,
				.address = 0x55550000u + (random >> 30) % 65536 * 16,
			};
			*slot = *event;
			slot->op = TRACE_FREE;
		}
		time_ns += 40 + (random >> 50) % 128;
		event->time_ns = time_ns;
	}
	tm_free(live);
	return events;
}

static double packed_bytes(ZSTD_CCtx *zstd, const struct span *column)
{
	static uint8_t out[2 << 20];
	size_t stored =
		ZSTD_compressCCtx(zstd, out, sizeof out, column->next, span_left(column), 1);
	return ZSTD_isError(stored) ? (double)span_left(column) : (double)stored;
}

static void add_columns(struct figures *f, ZSTD_CCtx *zstd, const struct bytes *raw, int first,
			int last)
{
	struct span columns[COLUMN_COUNT];
	if (!container_get(span_of(raw->data, raw->used), columns, (size_t)(last - first)))
		die("columns cannot be read back");
	for (int i = first; i < last; i++) {
		f->raw[i] += (double)span_left(&columns[i - first]);
		f->packed[i] += packed_bytes(zstd, &columns[i - first]);
	}
}

/* Pack one group of columns; times go to f->pack, bytes come back. */
static double pack(struct figures *f, ZSTD_CCtx *zstd, const struct encode *e, bool addresses,
		   struct bytes *raw, struct bytes *out)
{
	uint32_t from[COLUMN_COUNT] = {0};
	struct format_block_header header = {.type = FORMAT_EVENTS};
	raw->used = out->used = 0;
	uint64_t start = clock_steady_ns();
	encode_piece(e, addresses, from, raw);
	block_pack(zstd, 1, &header, raw->data, raw->used, out);
	note(&f->pack, start);
	return (double)out->used;
}

static void decode(struct figures *f, const struct encode *e, uint32_t stack_end,
		   const struct bytes *raw)
{
	static struct trace_event events[FORMAT_BLOCK_EVENTS];
	struct format_block_header header = {0};
	struct span columns[COLUMN_COUNT] = {0};
	encode_summary(e, &header);
	if (!container_get(span_of(raw->data, raw->used), columns, COLUMN_EVENTS_COUNT))
		die("columns cannot be read back");
	const struct decode_limits limits = {
		.first_block_id = header.first_block_id,
		.start_ns = header.start_ns,
		.stack_count = stack_end,
		.thread_count = UINT32_MAX,
	};
	static struct decode_memory *memory;
	if (!memory && !(memory = decode_memory_new()))
		die("no memory");
	uint64_t start = clock_steady_ns();
	const char *wrong = decode_events(&limits, columns, false, memory, events, header.count);
	note(&f->decode, start);
	if (wrong)
		die(wrong);
}

/* Encode a batch that is in the cache, as it is when it comes from the model. */
static size_t encode(struct figures *f, struct encode *e, const struct events *events, size_t first)
{
	static struct trace_event batch[1024];
	size_t count = events->count - first, taken = 0;
	if (count > sizeof batch / sizeof batch[0])
		count = sizeof batch / sizeof batch[0];
	memcpy(batch, events->list + first, count * sizeof batch[0]);
	uint64_t start = clock_steady_ns();
	if (encode_events(e, events->stack_end, batch, count, &taken) < 0)
		die("events cannot be encoded");
	note(&f->encode, start);
	return taken;
}

static void round_of(struct figures *f, const struct events *events, bool addresses)
{
	struct encode *e = NULL;
	struct bytes raw = {0}, out = {0};
	ZSTD_CCtx *zstd = ZSTD_createCCtx();
	if (!zstd || encode_new(addresses, &e) < 0)
		die("no memory");
	f->bytes = f->address_bytes = 0;
	f->encode.count = f->pack.count = f->decode.count = 0;
	memset(f->raw, 0, sizeof f->raw);
	memset(f->packed, 0, sizeof f->packed);
	for (size_t i = 0; i < events->count;) {
		while (i < events->count && !encode_full(e))
			i += encode(f, e, events, i);
		f->bytes += pack(f, zstd, e, false, &raw, &out);
		decode(f, e, events->stack_end, &raw);
		add_columns(f, zstd, &raw, 0, COLUMN_EVENTS_COUNT);
		if (addresses) {
			f->address_bytes += pack(f, zstd, e, true, &raw, &out);
			add_columns(f, zstd, &raw, COLUMN_EVENTS_COUNT, COLUMN_COUNT);
		}
		encode_restart(e);
	}
	encode_free(e);
	ZSTD_freeCCtx(zstd);
	bytes_done(&raw);
	bytes_done(&out);
}

static void report(const char *name, const struct events *events, int rounds, double logs[2])
{
	struct figures plain = {0}, full = {0};
	for (int i = 0; i < rounds; i++) {
		round_of(&plain, events, false);
		round_of(&full, events, true);
	}
	double n = (double)events->count;
	logs[0] += log(plain.bytes / n);
	logs[1] += log((full.bytes + full.address_bytes) / n);
	printf("%-12.12s %9zu events  encode %5.2f ns  pack %5.2f ns  decode %5.2f ns  %.3f bytes",
	       name, events->count, per_event(&plain.encode, events->count),
	       per_event(&plain.pack, events->count), per_event(&plain.decode, events->count),
	       plain.bytes / n);
	printf(" | with addresses: encode %5.2f ns  pack %5.2f ns  %.3f bytes\n",
	       per_event(&full.encode, events->count), per_event(&full.pack, events->count),
	       (full.bytes + full.address_bytes) / n);
	for (int i = 0; i < COLUMN_COUNT; i++)
		printf("  %s %.3f>%.3f", column_names[i], full.raw[i] / n, full.packed[i] / n);
	printf("\n");
	tm_free(full.decode.least_ns);
}

int main(int argc, char **argv)
{
	int rounds = 7, first = 1;
	double logs[2] = {0}, unused[2];
	if (argc > 2 && strcmp(argv[1], "-r") == 0) {
		rounds = atoi(argv[2]);
		first = 3;
	}
	for (int i = first; i < argc; i++) {
		const char *slash = strrchr(argv[i], '/');
		struct events events = load(argv[i]);
		report(slash ? slash + 1 : argv[i], &events, rounds, logs);
		tm_free(events.list);
	}
	if (argc > first)
		printf("geometric mean %.3f bytes, with addresses %.3f\n",
		       exp(logs[0] / (argc - first)), exp(logs[1] / (argc - first)));
	struct events few = make_up(2000000, 256), many = make_up(2000000, 100000);
	report("random few", &few, rounds, unused);
	report("random many", &many, rounds, unused);
	tm_free(few.list);
	tm_free(many.list);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Events to columns and back, without a file. */
#include "trace/encode.h"

#include "base/memory.h"
#include "harness/tap.h"
#include "trace/container.h"
#include "trace/decode.h"
#include "trace_fixture.h"

#include <errno.h>
#include <stdlib.h>

enum { MANY = 200000 };

static struct trace_event *events_of(struct fixture *f, size_t count)
{
	struct trace_event *events = tm_alloc_array(count, sizeof *events);
	REQUIRE(events != NULL);
	fixture_events(f, events, count);
	return events;
}

/* The columns that a reader of the whole block sees. */
static void collect(struct encode *e, bool addresses, struct bytes raw[2],
		    struct span columns[COLUMN_COUNT])
{
	uint32_t from[COLUMN_COUNT] = {0};
	raw[0].used = raw[1].used = 0;
	encode_piece(e, false, from, &raw[0]);
	REQUIRE(container_get(span_of(raw[0].data, raw[0].used), columns, COLUMN_EVENTS_COUNT));
	for (int i = COLUMN_EVENTS_COUNT; i < COLUMN_COUNT; i++)
		columns[i] = span_of(NULL, 0);
	if (!addresses)
		return;
	encode_piece(e, true, from, &raw[1]);
	REQUIRE(container_get(span_of(raw[1].data, raw[1].used), columns + COLUMN_EVENTS_COUNT,
			      COLUMN_COUNT - COLUMN_EVENTS_COUNT));
}

static struct decode_limits limits_of(const struct encode *e, struct format_block_header *header)
{
	*header = (struct format_block_header){0};
	encode_summary(e, header);
	return (struct decode_limits){
		.first_block_id = header->first_block_id,
		.start_ns = header->start_ns,
		.stack_count = FIXTURE_STACKS + 1,
		.thread_count = FIXTURE_THREADS,
		.free_stacks = header->flags & FORMAT_FREE_STACKS,
	};
}

/* Decode the open block; its events must be those. */
static void check_block(struct encode *e, const struct trace_event *events, bool addresses)
{
	struct bytes raw[2] = {{0}};
	struct span columns[COLUMN_COUNT];
	struct format_block_header header;
	struct decode_limits limits = limits_of(e, &header);
	struct trace_event *got = tm_alloc_array(header.count + 1, sizeof *got);
	struct decode_memory *memory = decode_memory_new();
	REQUIRE(got && memory);
	collect(e, addresses, raw, columns);
	const char *wrong = decode_events(&limits, columns, addresses, memory, got, header.count);
	decode_memory_free(memory);
	if (!CHECK(wrong == NULL))
		tap_note("%s", wrong);
	for (uint32_t i = 0; i < header.count; i++) {
		if (fixture_same(&events[i], &got[i], addresses))
			continue;
		tap_note("event %u differs", i);
		CHECK(!"an event came back as another");
		break;
	}
	tm_free(got);
	bytes_done(&raw[0]);
	bytes_done(&raw[1]);
}

static void round_trip(uint64_t seed, bool addresses, bool free_stacks)
{
	static struct fixture f;
	struct encode *e = NULL;
	fixture_init(&f, seed);
	f.free_stacks = free_stacks;
	f.step_ns = seed % 2 ? 100 : 5000;
	struct trace_event *events = events_of(&f, MANY);
	REQUIRE(encode_new(addresses, &e) == 0);
	encode_section(e, free_stacks, NULL);
	size_t done = 0, start = 0;
	while (done < MANY) {
		size_t taken = 0, some = 1 + fixture_random(&f, 5000);
		some = some < MANY - done ? some : MANY - done;
		REQUIRE(encode_events(e, FIXTURE_STACKS + 1, events + done, some, &taken) == 0);
		done += taken;
		if (!encode_full(e) && done < MANY)
			continue;
		CHECK_EQ_U64(encode_count(e), done - start);
		check_block(e, events + start, addresses);
		start = done;
		encode_restart(e);
	}
	tm_free(events);
	encode_free(e);
}

static void all_kinds_come_back(void)
{
	for (uint64_t seed = 1; seed <= 4; seed++)
		round_trip(seed, false, false);
}

static void addresses_come_back(void)
{
	for (uint64_t seed = 5; seed <= 8; seed++)
		round_trip(seed, true, false);
}

static void free_stacks_come_back(void)
{
	round_trip(9, false, true);
	round_trip(10, true, true);
}

/* The journal writes columns piece by piece: behind each other they are the whole. */
static void pieces_make_the_whole(void)
{
	static struct fixture f;
	struct encode *e = NULL;
	uint32_t from[COLUMN_COUNT] = {0};
	struct bytes joined[COLUMN_COUNT] = {{0}}, piece = {0}, raw[2] = {{0}};
	struct span columns[COLUMN_COUNT];
	fixture_init(&f, 11);
	struct trace_event *events = events_of(&f, 30000);
	REQUIRE(encode_new(true, &e) == 0);
	for (size_t done = 0; done < 30000; done += 1000) {
		size_t taken = 0;
		REQUIRE(encode_events(e, FIXTURE_STACKS + 1, events + done, 1000, &taken) == 0);
		for (int addresses = 0; addresses < 2; addresses++) {
			int first = addresses ? COLUMN_EVENTS_COUNT : 0;
			int count = addresses ? COLUMN_COUNT - first : COLUMN_EVENTS_COUNT;
			piece.used = 0;
			encode_piece(e, addresses, from, &piece);
			REQUIRE(container_get(span_of(piece.data, piece.used), columns,
					      (size_t)count));
			for (int i = 0; i < count; i++)
				bytes_put(&joined[first + i], columns[i].next,
					  span_left(&columns[i]));
		}
	}
	collect(e, true, raw, columns);
	for (int i = 0; i < COLUMN_COUNT; i++) {
		CHECK_EQ_U64(joined[i].used, span_left(&columns[i]));
		if (joined[i].used > 0)
			CHECK_MEM(joined[i].data, columns[i].next, joined[i].used);
		bytes_done(&joined[i]);
	}
	bytes_done(&piece);
	bytes_done(&raw[0]);
	bytes_done(&raw[1]);
	tm_free(events);
	encode_free(e);
}

static void impossible_events_are_refused(void)
{
	struct encode *e = NULL;
	size_t taken = 0;
	struct trace_event event = {.op = TRACE_ALLOC, .block_id = 1};
	REQUIRE(encode_new(true, &e) == 0);
	CHECK_EQ_I64(encode_events(e, 10, &event, 1, &taken), -EINVAL);
	event = (struct trace_event){.op = TRACE_OP_COUNT};
	CHECK_EQ_I64(encode_events(e, 10, &event, 1, &taken), -EINVAL);
	event = (struct trace_event){.op = TRACE_FREE, .block_id = 77};
	CHECK_EQ_I64(encode_events(e, 10, &event, 1, &taken), -EINVAL);
	event = (struct trace_event){.op = TRACE_ALLOC_FAIL, .stack_id = 10};
	CHECK_EQ_I64(encode_events(e, 10, &event, 1, &taken), -EINVAL);
	encode_free(e);
}

/* Time that falls (a clock that jumped) must not make a file that cannot be read. */
static void time_never_falls(void)
{
	struct encode *e = NULL;
	size_t taken = 0;
	struct trace_event events[3] = {{.op = TRACE_ALLOC, .block_id = 0, .time_ns = 9000},
					{.op = TRACE_ALLOC, .block_id = 1, .time_ns = 2000},
					{.op = TRACE_ALLOC, .block_id = 2, .time_ns = 9999}};
	REQUIRE(encode_new(false, &e) == 0);
	REQUIRE(encode_events(e, 1, events, 3, &taken) == 0);
	struct format_block_header header = {0};
	encode_summary(e, &header);
	CHECK_EQ_U64(header.start_ns, 9000);
	CHECK_EQ_U64(header.end_ns, 9000);
	encode_restart(e);
	events[0] = (struct trace_event){.op = TRACE_ALLOC, .block_id = 3, .time_ns = 1000};
	REQUIRE(encode_events(e, 1, events, 1, &taken) == 0);
	encode_summary(e, &header);
	CHECK_EQ_U64(header.start_ns, 9000);
	encode_free(e);
}

/* Any bytes at all in the columns: refused or decoded, never believed blindly. */
static void damaged_columns_are_refused(void)
{
	static struct fixture f;
	struct encode *e = NULL;
	struct bytes raw[2] = {{0}};
	struct span columns[COLUMN_COUNT], copy[COLUMN_COUNT];
	struct format_block_header header;
	size_t taken = 0;
	fixture_init(&f, 12);
	f.free_stacks = true;
	struct trace_event *events = events_of(&f, 3000);
	struct trace_event *got = tm_alloc_array(3000, sizeof *got);
	struct decode_memory *memory = decode_memory_new();
	REQUIRE(got && memory && encode_new(true, &e) == 0);
	encode_section(e, true, NULL);
	REQUIRE(encode_events(e, FIXTURE_STACKS + 1, events, 3000, &taken) == 0);
	collect(e, true, raw, columns);
	struct decode_limits limits = limits_of(e, &header);
	size_t refused = 0;
	for (int round = 0; round < 20000; round++) {
		struct bytes *part = &raw[round % 2];
		uint8_t *byte = part->data + 12 + fixture_random(&f, part->used - 12), old = *byte;
		*byte = (uint8_t)fixture_random(&f, 256);
		memcpy(copy, columns, sizeof copy);
		refused += decode_events(&limits, copy, true, memory, got, header.count) != NULL;
		*byte = old;
	}
	CHECK(refused > 1000);
	decode_memory_free(memory);
	tm_free(events);
	tm_free(got);
	bytes_done(&raw[0]);
	bytes_done(&raw[1]);
	encode_free(e);
}

static const struct tap_case cases[] = {
	{.name = "events of every kind come back as they were", .run = all_kinds_come_back},
	{.name = "addresses come back as they were", .run = addresses_come_back},
	{.name = "stacks of frees come back as they were", .run = free_stacks_come_back},
	{.name = "what the journal wrote piece by piece is the whole",
	 .run = pieces_make_the_whole},
	{.name = "an impossible event is refused, not written",
	 .run = impossible_events_are_refused},
	{.name = "a clock that jumps back leaves a readable file", .run = time_never_falls},
	{.name = "damaged columns are refused", .run = damaged_columns_are_refused},
};
TAP_MAIN(cases)

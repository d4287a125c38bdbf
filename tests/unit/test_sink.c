/* SPDX-License-Identifier: Apache-2.0 */
/* The writing thread's memory: what one block had is the next one's. */
#include "trace/sink.h"

#include "harness/tap.h"
#include "trace_fixture.h"

#include <unistd.h>

enum { LARGE = 200000, HUGE_PART = 3 << 20 };

static struct sink *new_sink(char path[256])
{
	struct sink *s = NULL;
	REQUIRE(!sink_open(fixture_file("sink", path), &(struct trace_writer_options){0}, &s,
			   NULL));
	return s;
}

static void write_part(struct sink *s, enum format_type type, size_t bytes)
{
	struct sink_batch *batch = sink_batch_new(s);
	REQUIRE(batch != NULL);
	struct bytes *raw = &sink_batch_add(batch, type, 0)->raw;
	CHECK_EQ_U64(raw->used, 0);
	REQUIRE(bytes_reserve(raw, bytes));
	memset(raw->data, 7, bytes);
	raw->used = bytes;
	CHECK_EQ_U64((uint64_t)sink_put(s, batch), 0);
	sink_drain(s);
}

/* What a new part of this type has from the beginning. */
static size_t room_of(struct sink *s, enum format_type type)
{
	struct sink_batch *batch = sink_batch_new(s);
	REQUIRE(batch != NULL);
	size_t room = sink_batch_add(batch, type, 0)->raw.room;
	CHECK_EQ_U64(batch->parts[0].raw.used, 0);
	sink_batch_free(batch);
	return room;
}

static void memory_comes_back(void)
{
	char path[256];
	struct sink *s = new_sink(path);
	CHECK_EQ_U64(room_of(s, FORMAT_EVENTS), 0);
	write_part(s, FORMAT_EVENTS, LARGE);
	CHECK(room_of(s, FORMAT_EVENTS) >= LARGE);
	CHECK(room_of(s, FORMAT_EVENTS) >= LARGE); /* what was not written came back, too */
	CHECK_EQ_U64(room_of(s, FORMAT_ADDRESSES), 0);
	write_part(s, FORMAT_EVENTS, LARGE / 2);
	CHECK(room_of(s, FORMAT_EVENTS) >= LARGE);
	CHECK_EQ_U64((uint64_t)sink_close(s, NULL), 0);
	unlink(path);
}

static void not_more_than_is_of_use(void)
{
	char path[256];
	struct sink *s = new_sink(path);
	write_part(s, FORMAT_EVENTS, HUGE_PART);
	CHECK_EQ_U64(room_of(s, FORMAT_EVENTS), 0);
	write_part(s, FORMAT_STACKS, LARGE);
	CHECK_EQ_U64(room_of(s, FORMAT_STACKS), 0);
	write_part(s, FORMAT_EVENTS, LARGE);
	sink_shrink(s); /* memory is short */
	CHECK_EQ_U64(room_of(s, FORMAT_EVENTS), 0);
	write_part(s, FORMAT_EVENTS, LARGE);
	CHECK_EQ_U64(room_of(s, FORMAT_EVENTS), 0);
	CHECK_EQ_U64((uint64_t)sink_close(s, NULL), 0);
	unlink(path);
}

static const struct tap_case cases[] = {
	{.name = "what a block had is the next one's", .run = memory_comes_back},
	{.name = "but no more than is of use", .run = not_more_than_is_of_use},
};
TAP_MAIN(cases)

/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that takes a chunk is torn out of it by a signal handler, at places of our choice. */
#include "agent/emit.h"

#include "agent/procself.h"
#include "agent/wake.h"
#include "harness/tap.h"

#include <setjmp.h>
#include <stdlib.h>

enum { CHUNKS = 2 };

struct agent agent;
struct agent_fixed agent_fixed;
static struct wire_control control;
static struct wire_stream stream;
static struct lane lane;
static jmp_buf out;
static uint32_t spare;                 /* goes to the pool while the thread waits */
static int asked, leave_at, filter_at; /* which question is answered by a jump, or with no */

/* The places are where emit.c asks this: before it waits, in the wait, and after it. */
bool agent_may_call(void)
{
	asked++;
	if (asked == leave_at)
		longjmp(out, 1);
	if (asked == 2 && spare) {
		wire_pool_put(&agent.map, spare);
		spare = 0;
	}
	return !filter_at || asked < filter_at;
}

char procself_state_of(uint32_t pid, const char *name)
{
	(void)pid;
	(void)name;
	return 0;
}

void agent_rest(void)
{
}

/* One chunk that comes while the thread waits; none but that. */
static void begin(void)
{
	agent.map = (struct wire_map){.control = &control,
				      .streams = &stream,
				      .stream_count = 1,
				      .chunks = calloc(CHUNKS, sizeof(struct wire_chunk)),
				      .chunk_count = CHUNKS};
	REQUIRE(agent.map.chunks);
	atomic_store(&agent.state, AGENT_ON);
	atomic_store(&control.state, WIRE_RECORD);
	lane.stream = &stream;
	lane.serial = 1;
	lane.tid = 1;
	spare = 1;
}

static void chunk_survives(void)
{
	begin();
	leave_at = 3; /* it has the chunk, and wants to know how long it waited */
	if (!setjmp(out)) {
		emit_refill(&lane, 2);
		CHECK(!"it was left");
	}
	CHECK_EQ_U64(atomic_load(&control.pool_head) & UINT32_MAX, WIRE_NONE);
	emit_repair(&lane);
	CHECK_EQ_U64(atomic_load(&control.pool_waiters), 0);
	agent.map.options = WIRE_OPT_DROP; /* nobody gives back another */
	CHECK(emit_refill(&lane, 2));
	CHECK(lane.chunk == agent.map.chunks);
	CHECK_EQ_U64(atomic_load(&stream.lost), 0);
	/* It is taken once. */
	CHECK(!emit_refill(&lane, 2));
	CHECK_EQ_U64(atomic_load(&stream.lost), 1);
}

static void waiter_is_counted_out(void)
{
	begin();
	spare = 0;
	leave_at = 4;
	if (!setjmp(out)) {
		emit_refill(&lane, 2);
		CHECK(!"it was left");
	}
	CHECK_EQ_U64(atomic_load(&control.pool_waiters), 1);
	emit_repair(&lane);
	CHECK_EQ_U64(atomic_load(&control.pool_waiters), 0);
}

/* After the sleep no call may be made any more: it must not be waited for ever, nor asked again. */
static void filter_ends_the_wait(void)
{
	begin();
	spare = 0;
	filter_at = 3;
	CHECK(!emit_refill(&lane, 2));
	CHECK_EQ_U64(atomic_load(&stream.lost), 1);
	CHECK_EQ_U64(atomic_load(&control.pool_waiters), 0);
	CHECK_EQ_U64(atomic_load(&control.off_reason), WIRE_OFF_NONE);
}

static const struct tap_case cases[] = {
	{.name = "a chunk that was just taken is the next one", .run = chunk_survives},
	{.name = "who was torn out of its wait waits no more", .run = waiter_is_counted_out},
	{.name = "a filter that comes ends the wait, not the recording",
	 .run = filter_ends_the_wait},
};
TAP_MAIN(cases)

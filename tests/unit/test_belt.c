/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader hands to the thread behind it arrives whole, in order, once; failures come back. */
#include "import/belt.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "harness/tap.h"

/* Counts what comes, and that it comes in order. */
struct receiver {
	uint64_t events, stacks, steps, chunks, misplaced;
	uint64_t fail_at_chunk; /* from 1; 0 = never */
};

static int receive(void *ctx, struct belt_chunk *chunk, struct tm_error *err)
{
	struct receiver *r = ctx;
	if (++r->chunks == r->fail_at_chunk)
		return tm_fail(err, -ENOSPC, "no room for chunk %llu",
			       (unsigned long long)r->chunks);
	for (size_t i = 0; i < chunk->event_count; i++)
		r->misplaced += chunk->events[i].block_id != r->events++;
	for (size_t i = 0; i < chunk->stack_count; i++)
		r->misplaced += chunk->stacks[i].pc != r->stacks++;
	for (size_t i = 0; i < chunk->step_count; i++)
		r->misplaced += chunk->steps[i].sample.time_ns != r->steps++;
	return 0;
}

struct sender {
	struct belt *belt;
	struct belt_chunk *chunk;
	struct receiver receiver;
	struct tm_error err;
	uint64_t events;
};

static void sender_init(struct sender *s)
{
	*s = (struct sender){0};
	REQUIRE(belt_new(receive, &s->receiver, &s->belt, &s->chunk, &s->err) == 0);
}

static void put(struct sender *s)
{
	struct belt_chunk *chunk = s->chunk;
	if (s->events % 100 == 0) {
		chunk->stacks[chunk->stack_count++].pc = s->events / 100;
		chunk->steps[chunk->step_count++].sample.time_ns = s->events / 100;
	}
	chunk->events[chunk->event_count++].block_id = s->events++;
}

/* Many full chunks and some that are not, with a look at the result in between. */
static void in_order(void)
{
	struct sender s;
	sender_init(&s);
	for (int round = 1; round <= 20; round++) {
		for (int full = 0; full < round; full++) {
			while (s.chunk->event_count < BELT_EVENTS)
				put(&s);
			REQUIRE(belt_pass(s.belt, &s.chunk, &s.err) == 0);
			CHECK_EQ_U64(s.chunk->event_count, 0);
		}
		for (int i = 0; i < round; i++)
			put(&s);
		REQUIRE(belt_settle(s.belt, &s.chunk, &s.err) == 0);
		CHECK_EQ_U64(s.receiver.events, s.events);
		CHECK_EQ_U64(s.receiver.steps, (s.events + 99) / 100);
	}
	CHECK_EQ_U64(s.receiver.misplaced, 0);
	belt_free(s.belt);
}

/* A small file: all of it is done by the caller. */
static void small(void)
{
	struct sender s;
	sender_init(&s);
	REQUIRE(belt_settle(s.belt, &s.chunk, &s.err) == 0);
	for (int i = 0; i < 5; i++) {
		put(&s);
		REQUIRE(belt_settle(s.belt, &s.chunk, &s.err) == 0);
		CHECK_EQ_U64(s.receiver.events, s.events);
	}
	CHECK_EQ_U64(s.receiver.misplaced, 0);
	belt_free(s.belt);
}

/* The disk is full at some chunk: the sentence comes back, now or later, and stays. */
static void failures(void)
{
	for (uint64_t at = 1; at < 30; at += 4) {
		struct sender s;
		sender_init(&s);
		s.receiver.fail_at_chunk = at;
		int code = 0;
		for (int i = 0; i < 200 && !code; i++) {
			put(&s);
			code = belt_pass(s.belt, &s.chunk, &s.err);
		}
		CHECK_EQ_I64(code, -ENOSPC);
		CHECK_HAS(s.err.text, "no room for chunk");
		CHECK_EQ_I64(belt_settle(s.belt, &s.chunk, &s.err), -ENOSPC);
		CHECK_EQ_U64(s.receiver.chunks, at);
		belt_free(s.belt);
	}
}

/* Stopped in the middle, as by Ctrl-C: what waits is dropped, nothing hangs. */
static void stopped(void)
{
	for (int passed = 0; passed < 40; passed++) {
		struct sender s;
		sender_init(&s);
		for (int i = 0; i < passed; i++) {
			put(&s);
			REQUIRE(belt_pass(s.belt, &s.chunk, &s.err) == 0);
		}
		put(&s);
		belt_free(s.belt);
		CHECK_EQ_U64(s.receiver.misplaced, 0);
		CHECK(s.receiver.events <= (uint64_t)passed);
	}
	CHECK(belt_free(NULL) == NULL);
}

static void no_memory(void)
{
	for (long n = 0;; n++) {
		struct receiver receiver = {0};
		struct tm_error err = {0};
		struct belt *belt = NULL;
		struct belt_chunk *chunk = NULL;
		tm_alloc_fail_at(n);
		int code = belt_new(receive, &receiver, &belt, &chunk, &err);
		for (int i = 0; i < 20 && !code; i++)
			code = belt_pass(belt, &chunk, &err);
		tm_alloc_fail_at(-1);
		belt_free(belt);
		if (!code)
			break;
		CHECK_EQ_I64(code, -ENOMEM);
		CHECK(err.text[0] != 0);
	}
}

static const struct tap_case cases[] = {
	{.name = "events of a large file come in another order", .run = in_order},
	{.name = "events of a small file are lost", .run = small},
	{.name = "a full disk is not told", .run = failures},
	{.name = "an import that is stopped hangs", .run = stopped},
	{.name = "without memory a large file crashes the tool", .run = no_memory},
};

TAP_MAIN(cases)

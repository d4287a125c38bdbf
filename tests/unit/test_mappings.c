/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings as blocks, against one entry per page. */
#include "base/memory.h"
#include "harness/tap.h"
#include "model/mappings.h"

#include <errno.h>
#include <string.h>

enum { PAGE = 4096, PAGES = 48, EVENTS = 60, FIRST = 16, PIECES = 4096 };

struct page { /* what a page holds: 0 nothing, 1 accessible, 2 reserved, 3 and 4 the same of a file
	       */
	int kind;
	int call;
};

struct piece {
	uint64_t address, bytes;
	int born, ended; /* calls; ended -1: never */
};

struct pieces {
	struct piece list[PIECES];
	size_t count;
	uint64_t fail_at;
};

static uint64_t state = 1;
static uint64_t below(uint64_t limit)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (state >> 33) % limit;
}

/* Times are the number of the call, in microseconds, so that both sides can be told apart. */
static int collect(void *ctx, const struct mapping *m)
{
	struct pieces *got = ctx;
	if (got->fail_at && got->count + 1 == got->fail_at)
		return -EINTR;
	REQUIRE(got->count < PIECES);
	CHECK_EQ_U64(m->stack_id, m->birth_ns / 1000 + 1);
	CHECK_EQ_U64(m->thread_id, m->birth_ns / 1000 % 3);
	if (m->end_ns != UINT64_MAX)
		CHECK_EQ_U64(m->end_thread_id, m->end_ns / 1000 % 3);
	got->list[got->count++] = (struct piece){
		.address = m->address,
		.bytes = m->bytes,
		.born = (int)(m->birth_ns / 1000),
		.ended = m->end_ns == UINT64_MAX ? -1 : (int)(m->end_ns / 1000),
	};
	return 0;
}

static struct trace_map_event some_call(int number)
{
	static const uint8_t ops[] = {TRACE_MAP, TRACE_MAP, TRACE_UNMAP, TRACE_MAP_PROTECT,
				      TRACE_MAP_ADVISE};
	uint64_t first = below(PAGES), count = 1 + below(12);
	if (count > PAGES - first)
		count = PAGES - first;
	return (struct trace_map_event){
		.time_ns = (uint64_t)number * 1000 + 7,
		.address = (FIRST + first) * PAGE,
		.bytes = count * PAGE - below(2), /* sizes are rounded up to whole pages */
		.op = ops[below(5)],
		.prot_or_advice = below(4) ? 3 : 0,
		.flags = below(5) ? 0 : TRACE_MAP_FILE,
		.stack_id = (uint32_t)number + 1,
		.thread_id = (uint32_t)number % 3,
	};
}

/* The page after this call. */
static struct page next_page(struct page old, const struct trace_map_event *event, int number)
{
	bool open = event->prot_or_advice != 0;
	int file = event->flags & TRACE_MAP_FILE ? 2 : 0;
	if (event->op == TRACE_UNMAP)
		return (struct page){0, 0};
	if (event->op == TRACE_MAP)
		return (struct page){(open ? 1 : 2) + file, number};
	if (event->op != TRACE_MAP_PROTECT || !old.kind)
		return old;
	int kind = (old.kind > 2 ? 2 : 0) + (open ? 1 : 2);
	return kind == old.kind ? old : (struct page){kind, number};
}

/* Neighbours that came and went by the same calls are one piece. */
static void add_pages(struct pieces *want, const struct page *before, const bool *gone, int number)
{
	for (size_t i = 0; i < PAGES; i++) {
		if (!gone[i] || before[i].kind != 1)
			continue;
		size_t end = i + 1;
		while (end < PAGES && gone[end] && before[end].kind == 1 &&
		       before[end].call == before[i].call)
			end++;
		want->list[want->count++] = (struct piece){
			.address = (FIRST + i) * PAGE,
			.bytes = (end - i) * PAGE,
			.born = before[i].call,
			.ended = number,
		};
		i = end - 1;
	}
}

static void expect(const struct trace_map_event *events, size_t count, struct pieces *want)
{
	struct page pages[PAGES] = {{0, 0}}, next[PAGES];
	bool gone[PAGES];
	for (size_t n = 0; n < count; n++) {
		for (size_t i = 0; i < PAGES; i++) {
			uint64_t address = (FIRST + i) * PAGE;
			bool hit = address >= events[n].address &&
				   address < events[n].address + events[n].bytes;
			next[i] = hit ? next_page(pages[i], &events[n], (int)n) : pages[i];
			/* A new mapping over an old one ends it, whatever it is. */
			gone[i] = next[i].kind != pages[i].kind || next[i].call != pages[i].call;
		}
		add_pages(want, pages, gone, (int)n);
		memcpy(pages, next, sizeof pages);
	}
	memset(gone, true, sizeof gone);
	add_pages(want, pages, gone, -1);
}

static void random_calls(void)
{
	static struct pieces got, want;
	for (int round = 0; round < 3000; round++) {
		struct trace_map_event events[EVENTS];
		size_t count = 1 + below(EVENTS);
		for (size_t i = 0; i < count; i++)
			events[i] = some_call((int)i);
		got.count = want.count = 0;
		expect(events, count, &want);
		REQUIRE(mappings_each(events, count, PAGE, collect, &got) == 0);
		if (!CHECK_EQ_U64(got.count, want.count) ||
		    !CHECK_MEM(got.list, want.list, got.count * sizeof got.list[0])) {
			tap_note("round %d", round);
			return;
		}
	}
}

static void stops(void)
{
	struct pieces got = {.fail_at = 1};
	const struct trace_map_event events[] = {
		{.address = PAGE, .bytes = PAGE, .prot_or_advice = 3, .stack_id = 1},
		{.time_ns = 1000, .op = TRACE_UNMAP, .address = PAGE, .bytes = PAGE},
	};
	CHECK_EQ_I64(mappings_each(events, 2, PAGE, collect, &got), -EINTR);
	CHECK_EQ_I64(mappings_each(events, 1, PAGE, collect, &got), -EINTR);
	tm_alloc_fail_at(0);
	got.fail_at = 0;
	CHECK_EQ_I64(mappings_each(events, 2, PAGE, collect, &got), -ENOMEM);
	tm_alloc_fail_at(-1);
}

static const struct tap_case cases[] = {
	{.name = "who mapped what, and until when, is told right", .run = random_calls},
	{.name = "a question about mappings can be stopped", .run = stops},
};
TAP_MAIN(cases)

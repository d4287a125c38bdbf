/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/repair.h"
#include "harness/tap.h"

enum { A = 1, B = 2, C = 3 };

static struct trace_event event(enum trace_op op, uint32_t thread, uint64_t time_ns,
				uint64_t address)
{
	return (struct trace_event){.op = (uint8_t)op,
				    .thread_id = thread,
				    .time_ns = time_ns,
				    .address = address,
				    .size_bytes = 8};
}

static struct model *new_model(void)
{
	struct model *model = NULL;
	REQUIRE(model_new(&(struct model_options){0}, &model, NULL) == 0);
	return model;
}

static enum trace_op op_of(char letter)
{
	switch (letter) {
	case 'a':
		return TRACE_ALLOC;
	case 'r':
		return TRACE_REALLOC_FREE;
	case 'u':
		return TRACE_REALLOC_UNDO;
	default:
		return TRACE_FREE;
	}
}

/* `none`: how many end no block. */
static void check_ends(struct model *model, struct trace_event *events, size_t count,
		       unsigned moves, const char *ops, unsigned none)
{
	struct repair *repair = repair_new();
	REQUIRE(repair != NULL);
	CHECK_EQ_U64(repair_order(repair, model, false, events, count), moves);
	for (size_t i = 0; i < count; i++) {
		CHECK_EQ_U64(events[i].op, (uint64_t)op_of(ops[i]));
		CHECK(!i || events[i - 1].time_ns <= events[i].time_ns);
	}
	struct model_totals totals;
	REQUIRE(model_apply(model, events, count, NULL) == 0);
	model_totals(model, &totals);
	CHECK_EQ_U64(totals.freed_unseen, 0);
	CHECK_EQ_U64(totals.freed_older, none);
	repair_free(repair);
	model_free(model);
}

static void check_order(struct model *model, struct trace_event *events, size_t count,
			unsigned moves, const char *ops)
{
	check_ends(model, events, count, moves, ops, 0);
}

static void give(struct model *model, uint64_t address)
{
	struct trace_event before = event(TRACE_ALLOC, A, 0, address);
	REQUIRE(model_apply(model, &before, 1, NULL) == 0);
}

static void late_free(void)
{
	struct model *model = new_model();
	give(model, 16);
	struct trace_event events[] = {event(TRACE_ALLOC, A, 100, 16),
				       event(TRACE_FREE, B, 150, 16)};
	check_order(model, events, 2, 1, "fa");
}

static void late_allocation(void)
{
	struct trace_event events[] = {event(TRACE_FREE, B, 100, 16),
				       event(TRACE_ALLOC, A, 150, 16)};
	check_order(new_model(), events, 2, 1, "af");
}

static void late_free_of_a_short_life(void)
{
	struct model *model = new_model();
	give(model, 16);
	struct trace_event events[] = {event(TRACE_ALLOC, A, 100, 16),
				       event(TRACE_FREE, A, 120, 16),
				       event(TRACE_FREE, B, 150, 16)};
	check_order(model, events, 3, 1, "faf");
}

static void state_within_the_batch_counts(void)
{
	struct trace_event events[] = {
		event(TRACE_ALLOC, B, 10, 16), event(TRACE_ALLOC, A, 5000, 16),
		event(TRACE_FREE, B, 5060, 16), event(TRACE_FREE, A, 9000, 16)};
	check_order(new_model(), events, 4, 1, "afaf");
}

/* B's allocation is the early one: B was interrupted before it could free. */
static void early_allocation_of_an_interrupted_thread(void)
{
	struct trace_event events[] = {
		event(TRACE_ALLOC, B, 100, 16), event(TRACE_ALLOC, A, 160, 16),
		event(TRACE_FREE, A, 170, 16), event(TRACE_ALLOC, A, 180, 32),
		event(TRACE_FREE, B, 9000000, 16)};
	check_order(new_model(), events, 5, 1, "afaaf");
}

/* B's free waited long for the block that A freed, made again and handed over. */
static void early_free_of_the_next_block(void)
{
	struct model *model = new_model();
	give(model, 16);
	struct trace_event events[] = {event(TRACE_ALLOC, B, 90, 48), event(TRACE_FREE, B, 100, 16),
				       event(TRACE_FREE, A, 150, 16),
				       event(TRACE_ALLOC, A, 200, 16),
				       event(TRACE_ALLOC, B, 400, 32)};
	check_order(model, events, 5, 1, "afafa");
}

/* A's realloc fails and A hands the block over; B frees it and makes it again. */
static void free_after_a_failed_realloc(void)
{
	struct trace_event events[] = {
		event(TRACE_ALLOC, A, 10, 16),        event(TRACE_REALLOC_FREE, A, 100, 16),
		event(TRACE_FREE, B, 140, 16),        event(TRACE_REALLOC_UNDO, A, 150, 0),
		event(TRACE_ALLOC, B, 180, 16),       event(TRACE_FREE, A, 9000, 16),
		event(TRACE_REALLOC_UNDO, A, 9100, 0)};
	check_order(new_model(), events, 7, 1, "arufafu");
	CHECK_EQ_U64(events[2].address, 0);
	CHECK_EQ_U64(events[6].address, 0);
}

/* C had the block before: what B frees is only there once C's free is through. */
static void frees_around_a_failed_realloc(void)
{
	struct trace_event events[] = {
		event(TRACE_ALLOC, A, 10, 16),        event(TRACE_REALLOC_FREE, A, 100, 16),
		event(TRACE_REALLOC_UNDO, A, 110, 0), event(TRACE_ALLOC, C, 140, 16),
		event(TRACE_FREE, B, 150, 16),        event(TRACE_FREE, C, 9000, 16)};
	check_order(new_model(), events, 6, 1, "arufaf");
}

/* The realloc began in a batch before. */
static void failed_realloc_of_an_earlier_batch(void)
{
	struct model *model = new_model();
	give(model, 16);
	struct trace_event begun = event(TRACE_REALLOC_FREE, A, 50, 16);
	REQUIRE(model_apply(model, &begun, 1, NULL) == 0);
	struct trace_event events[] = {event(TRACE_FREE, B, 100, 16),
				       event(TRACE_REALLOC_UNDO, A, 120, 0)};
	check_order(model, events, 2, 1, "uf");
}

static void hand_over_is_left_alone(void)
{
	struct trace_event events[] = {
		event(TRACE_ALLOC, A, 100, 16), event(TRACE_FREE, B, 150, 16),
		event(TRACE_ALLOC, A, 200, 16), event(TRACE_FREE, B, 250, 16)};
	check_order(new_model(), events, 4, 0, "afaf");
}

/* B allocates another block in between: its own order must stay. */
static void own_order_stays(void)
{
	struct model *model = new_model();
	give(model, 16);
	struct trace_event events[] = {event(TRACE_ALLOC, A, 100, 16),
				       event(TRACE_ALLOC, B, 120, 32),
				       event(TRACE_FREE, B, 150, 16)};
	struct repair *repair = repair_new();
	CHECK_EQ_U64(repair_order(repair, model, false, events, 3), 1);
	CHECK_EQ_U64(events[0].address, 32);
	CHECK_EQ_U64(events[1].op, TRACE_FREE);
	CHECK_EQ_U64(events[2].thread_id, A);
	CHECK_EQ_U64(events[0].time_ns, 100);
	CHECK_EQ_U64(events[2].time_ns, 150);
	repair_free(repair);
	model_free(model);
}

/* A free that was never seen is no skew: it must not take a later one. */
static void far_apart_is_no_skew(void)
{
	struct model *model = new_model();
	give(model, 16);
	struct trace_event events[] = {event(TRACE_ALLOC, A, 100, 16),
				       event(TRACE_FREE, B, 100 + REPAIR_WINDOW_NS + 1, 16)};
	struct repair *repair = repair_new();
	CHECK_EQ_U64(repair_order(repair, model, false, events, 2), 0);
	repair_free(repair);
	model_free(model);
}

static struct trace_event outside(uint32_t thread_id, uint64_t time_ns, uint64_t address)
{
	struct trace_event made = event(TRACE_FREE, thread_id, time_ns, address);
	made.flags = TRACE_EVENT_OUTSIDE;
	return made;
}

/* While sampling: the block that was freed there was none of ours. */
static void a_free_of_none_ends_none(void)
{
	struct trace_event events[] = {outside(A, 100, 16), event(TRACE_ALLOC, B, 150, 16),
				       event(TRACE_FREE, B, 300, 16)};
	check_ends(new_model(), events, 3, 0, "faf", 1);
	struct trace_event twice[] = {event(TRACE_ALLOC, A, 100, 16), event(TRACE_FREE, A, 120, 16),
				      outside(B, 150, 16), event(TRACE_ALLOC, A, 200, 16)};
	check_ends(new_model(), twice, 4, 0, "affa", 1);
}

/* The same among others that are to be put right. */
static void a_free_of_none_waits_for_none(void)
{
	struct model *model = new_model();
	give(model, 32);
	struct trace_event events[] = {outside(A, 100, 16), event(TRACE_ALLOC, B, 150, 16),
				       event(TRACE_ALLOC, B, 160, 32),
				       event(TRACE_FREE, A, 170, 32)};
	check_ends(model, events, 4, 1, "fafa", 1);
}

/* But one of a block that is there is its end. */
static void a_late_free_outside_is_put_right(void)
{
	struct model *model = new_model();
	give(model, 16);
	struct trace_event events[] = {event(TRACE_ALLOC, B, 100, 16), outside(A, 150, 16)};
	check_order(model, events, 2, 1, "fa");
}

/* Attached: what was there before is not known, and its ends are no skew. */
static void strangers_wait_for_none(void)
{
	struct repair *repair = repair_new();
	struct model *model = new_model();
	give(model, 32);
	struct trace_event events[] = {
		event(TRACE_FREE, A, 100, 16), event(TRACE_ALLOC, B, 150, 16),
		event(TRACE_ALLOC, B, 160, 32), event(TRACE_FREE, A, 170, 32)};
	CHECK_EQ_U64(repair_order(repair, model, true, events, 4), 1);
	static const uint8_t wanted[] = {TRACE_FREE, TRACE_ALLOC, TRACE_FREE, TRACE_ALLOC};
	for (size_t i = 0; i < 4; i++) {
		CHECK_EQ_U64(events[i].op, wanted[i]);
		CHECK_EQ_U64(events[i].address, i < 2 ? 16 : 32);
	}
	repair_free(repair);
	model_free(model);
}

static const struct tap_case cases[] = {
	{.name = "a free stamped after the next allocation is no false leak", .run = late_free},
	{.name = "an allocation stamped after its free is no false leak", .run = late_allocation},
	{.name = "the same when the next block is gone already", .run = late_free_of_a_short_life},
	{.name = "what the batch itself did is known", .run = state_within_the_batch_counts},
	{.name = "an allocation stamped early and then interrupted is no false leak",
	 .run = early_allocation_of_an_interrupted_thread},
	{.name = "a free stamped before the block that it frees was there is no false leak",
	 .run = early_free_of_the_next_block},
	{.name = "a block handed from thread to thread stays in order",
	 .run = hand_over_is_left_alone},
	{.name = "a free stamped before the failed realloc of its block is no free of none",
	 .run = free_after_a_failed_realloc},
	{.name = "nor is the next block's allocation that of a live one",
	 .run = frees_around_a_failed_realloc},
	{.name = "nor if that realloc began in the batch before",
	 .run = failed_realloc_of_an_earlier_batch},
	{.name = "a thread's own order is kept", .run = own_order_stays},
	{.name = "a free that was never seen takes no other", .run = far_apart_is_no_skew},
	{.name = "while sampling a free of an unknown block ends none",
	 .run = a_free_of_none_ends_none},
	{.name = "nor does it wait for one", .run = a_free_of_none_waits_for_none},
	{.name = "nor do frees of what was there before we were", .run = strangers_wait_for_none},
	{.name = "but one stamped after the next allocation is put right",
	 .run = a_late_free_outside_is_put_right},
};
TAP_MAIN(cases)

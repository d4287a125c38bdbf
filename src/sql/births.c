/* SPDX-License-Identifier: Apache-2.0 */
#include "sql/births.h"

#include <errno.h>
#include <stdlib.h>

#include "base/memory.h"

int births_init(struct births *births, struct sql *sql, struct tm_error *err)
{
	*births = (struct births){0};
	return open_blocks_init(&births->open, sql) ? tm_fail(err, -ENOMEM, "out of memory") : 0;
}

void births_done(struct births *births)
{
	open_blocks_done(&births->open);
	tm_free(births->missing);
	*births = (struct births){0};
}

static bool is_end(const struct trace_event *event)
{
	return event->op == TRACE_FREE || event->op == TRACE_REALLOC_FREE ||
	       event->op == TRACE_FREE_UNSEEN;
}

static void remember(struct births *births, const struct trace_event *event)
{
	const struct open_block block = {
		.key = event->block_id + 1,
		.size_bytes = event->size_bytes,
		.address = event->address,
		.stack_id = event->stack_id,
	};
	/* Without room it will be looked up. */
	(void)open_blocks_add(&births->open, &block);
}

static void fill_from(struct trace_event *event, const struct trace_event *birth)
{
	event->stack_id = birth->stack_id;
	event->size_bytes = birth->size_bytes;
	event->address = birth->address;
}

/* From what is remembered; the number of events that remain is given back. */
static size_t fill_known(struct births *births, struct walk *walk)
{
	size_t missing = 0;
	for (size_t i = 0; i < walk->facts.event_count; i++) {
		struct trace_event *event = &walk->events[i];
		struct open_block block;
		if (event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC) {
			remember(births, event);
		} else if (is_end(event) && event->block_id != TRACE_NO_BLOCK) {
			bool known = open_blocks_take(&births->open, event->block_id, &block);
			if (known) {
				event->stack_id = block.stack_id;
				event->size_bytes = block.size_bytes;
				event->address = block.address;
			} else if (event->block_id < walk->facts.first_block_id) {
				births->missing[missing++] =
					(struct births_missing){event->block_id, i};
			}
		}
	}
	return missing;
}

static int compare_missing(const void *a, const void *b)
{
	const struct births_missing *left = a, *right = b;
	return (left->block_id > right->block_id) - (left->block_id < right->block_id);
}

/* Whether the block of events in which a block began holds any of the wanted stacks. */
static bool may_be_wanted(const struct walk *walk, const struct stack_set *wanted,
			  uint64_t block_id, size_t *cursor)
{
	struct trace_event_block facts = {0}, next;
	if (wanted->all || !wanted->ranges)
		return true;
	while (!trace_reader_event_block(walk->sql->reader, *cursor + 1, &next) &&
	       next.first_block_id <= block_id)
		++*cursor;
	return trace_reader_event_block(walk->sql->reader, *cursor, &facts) ||
	       stack_set_acts(wanted, facts.first_event, facts.first_event + facts.event_count,
			      false);
}

static int look_up(struct births *births, struct walk *walk, const struct stack_set *wanted,
		   size_t count, struct tm_error *err)
{
	size_t cursor = 0;
	qsort(births->missing, count, sizeof *births->missing, compare_missing);
	for (size_t i = 0; i < count; i++) {
		struct trace_event *event = &walk->events[births->missing[i].at];
		const struct trace_event *birth = NULL;
		if (!may_be_wanted(walk, wanted, event->block_id, &cursor)) {
			event->stack_id = BIRTHS_NO_STACK;
			continue;
		}
		int code = history_birth(&walk->sql->history, event->block_id, &birth, err);
		if (!code && i % 1024 == 0)
			code = sql_tell(walk->sql, walk->facts.first_event, walk->sql->event_count,
					err);
		if (code)
			return code;
		if (birth)
			fill_from(event, birth);
	}
	return 0;
}

int births_fill(struct births *births, struct walk *walk, const struct stack_set *wanted,
		struct tm_error *err)
{
	if (walk->facts.event_count > births->missing_room) {
		tm_free(births->missing);
		births->missing_room = 0;
		births->missing =
			tm_alloc_array((size_t)walk->facts.event_count, sizeof *births->missing);
		if (!births->missing)
			return tm_fail(err, -ENOMEM, "out of memory");
		births->missing_room = (size_t)walk->facts.event_count;
	}
	return look_up(births, walk, wanted, fill_known(births, walk), err);
}

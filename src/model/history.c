/* SPDX-License-Identifier: Apache-2.0 */
#include "model/history.h"

#include <errno.h>

#include "base/memory.h"

/* More than any writer puts into one block; a damaged count asks for no impossible memory. */
enum { EVENTS_MAX = 1 << 24 };

void history_init(struct history *history, struct trace_reader *reader)
{
	*history = (struct history){.reader = reader};
}

static void part_done(struct history_part *part)
{
	tm_free(part->events);
	tm_free(part->births);
	*part = (struct history_part){0};
}

void history_done(struct history *history)
{
	for (size_t i = 0; i < HISTORY_KEPT; i++)
		part_done(&history->parts[i]);
}

static bool is_birth(const struct trace_event *event)
{
	return event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC;
}

/* What counts as the thread's doing for *temporary*. */
static bool is_act(const struct trace_event *event)
{
	return event->op != TRACE_ALLOC_FAIL && event->op != TRACE_FREE_UNSEEN;
}

static int part_load(struct trace_reader *reader, size_t index, struct history_part *part,
		     struct tm_error *err)
{
	int rc = trace_reader_event_block(reader, index, &part->facts);
	if (rc)
		return tm_fail(err, rc, "event block %zu of the trace cannot be found", index);
	uint64_t count = part->facts.event_count;
	if (count > EVENTS_MAX)
		return tm_fail(err, -EBADMSG, "event block %zu claims %llu events", index,
			       (unsigned long long)count);
	part->events = tm_grow_array(NULL, count, sizeof *part->events);
	part->births = tm_grow_array(NULL, count, sizeof *part->births);
	if (!part->events || !part->births)
		return tm_fail(err, -ENOMEM, "no memory to read event block %zu", index);
	rc = trace_reader_events(reader, index, part->events, err);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < count; i++) {
		if (is_birth(&part->events[i]))
			part->births[part->birth_count++] = i;
	}
	return 0;
}

const struct history_part *history_part(struct history *history, size_t index, struct tm_error *err)
{
	size_t oldest = 0;
	for (size_t i = 0; i < HISTORY_KEPT; i++) {
		struct history_part *part = &history->parts[i];
		if (part->used && history->part_index[i] == index) {
			part->used = ++history->uses;
			return part;
		}
		if (part->used < history->parts[oldest].used)
			oldest = i;
	}
	struct history_part *part = &history->parts[oldest];
	part_done(part);
	history->error = part_load(history->reader, index, part, err);
	if (history->error) {
		part_done(part);
		return NULL;
	}
	history->part_index[oldest] = index;
	part->used = ++history->uses;
	return part;
}

/* The first event block for which key(facts) > value; facts rise from block to block. */
static size_t first_beyond(const struct history *history, uint64_t value, bool by_block_id)
{
	size_t low = 0, high = trace_reader_event_block_count(history->reader);
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		struct trace_event_block facts = {0};
		if (trace_reader_event_block(history->reader, middle, &facts))
			return low;
		uint64_t key =
			by_block_id ? facts.first_block_id : facts.first_event + facts.event_count;
		if (key > value)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

size_t history_index_of_event(const struct history *history, uint64_t ordinal)
{
	return first_beyond(history, ordinal, false);
}

/* Numbers rise; where blocks are culled not one by one. */
static const struct trace_event *find_born(const struct history_part *part, uint64_t block_id)
{
	uint64_t low = 0, high = part->birth_count;
	uint64_t place = block_id - part->facts.first_block_id;
	if (place < high && part->events[part->births[place]].block_id == block_id)
		return &part->events[part->births[place]];
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (part->events[part->births[middle]].block_id < block_id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == part->birth_count || part->events[part->births[low]].block_id != block_id)
		return NULL;
	return &part->events[part->births[low]];
}

int history_birth(struct history *history, uint64_t block_id, const struct trace_event **ret,
		  struct tm_error *err)
{
	size_t beyond = first_beyond(history, block_id, true);
	*ret = NULL;
	if (beyond == 0)
		return 0;
	const struct history_part *part = history_part(history, beyond - 1, err);
	if (!part)
		return history->error == -EBADMSG ? 0 : history->error;
	*ret = find_born(part, block_id);
	return 0;
}

/* Whether the thread acts in events [from, end) of a part. */
static bool acts_within(const struct history_part *part, uint64_t from, uint64_t end,
			uint32_t thread_id)
{
	for (uint64_t i = from; i < end; i++) {
		if (part->events[i].thread_id == thread_id && is_act(&part->events[i]))
			return true;
	}
	return false;
}

int history_idle_since_birth(struct history *history, uint64_t block_id, uint32_t thread_id,
			     uint64_t end, bool *ret, struct tm_error *err)
{
	const struct trace_event *birth;
	int rc = history_birth(history, block_id, &birth, err);
	*ret = false;
	if (rc || !birth || birth->thread_id != thread_id)
		return rc;
	size_t index = first_beyond(history, block_id, true) - 1;
	for (; index < trace_reader_event_block_count(history->reader); index++) {
		const struct history_part *part = history_part(history, index, err);
		if (!part)
			return history->error == -EBADMSG ? 0 : history->error;
		uint64_t first = part->facts.first_event, count = part->facts.event_count;
		if (first >= end)
			break;
		uint64_t from = birth ? (uint64_t)(birth - part->events) + 1 : 0;
		birth = NULL; /* later parts count from their first event */
		if (acts_within(part, from, end - first < count ? end - first : count, thread_id))
			return 0;
	}
	*ret = true;
	return 0;
}

static bool is_realloc(const struct trace_event *event)
{
	return event->op == TRACE_REALLOC_FREE || event->op == TRACE_REALLOC_ALLOC ||
	       event->op == TRACE_REALLOC_UNDO;
}

int history_last_realloc(struct history *history, uint32_t thread_id, uint64_t end,
			 const struct trace_event **ret, struct tm_error *err)
{
	*ret = NULL;
	size_t count = trace_reader_event_block_count(history->reader);
	size_t index = history_index_of_event(history, end);
	for (index = index < count ? index + 1 : count; index-- > 0;) {
		const struct history_part *part = history_part(history, index, err);
		if (!part)
			return history->error == -EBADMSG ? 0 : history->error;
		for (uint64_t i = part->facts.event_count; i-- > 0;) {
			const struct trace_event *event = &part->events[i];
			if (part->facts.first_event + i < end && event->thread_id == thread_id &&
			    is_realloc(event)) {
				*ret = event;
				return 0;
			}
		}
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model/event_scan.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "base/memory.h"

enum slot_state { SLOT_EMPTY, SLOT_DECODED, SLOT_SKIPPED, SLOT_DAMAGED, SLOT_FAILED };

/* Room for one decoded block of events. */
struct slot {
	struct trace_event_block facts;
	struct trace_event *events;
	size_t room;
	enum slot_state state;
	void *memory; /* of digest() */
	struct tm_error err;
};

struct run {
	const struct event_scan *scan;
	struct slot slots[2 * EVENT_SCAN_THREADS_MAX];
	size_t slot_count;
	/* Under lock: */
	pthread_mutex_t lock;
	pthread_cond_t ready, emptied;
	size_t next;  /* block that a thread takes next */
	size_t taken; /* blocks before this one have been looked at */
	bool stop;
};

unsigned event_scan_threads(unsigned wanted)
{
	long cores = wanted ? (long)wanted : sysconf(_SC_NPROCESSORS_ONLN);
	if (cores < 1)
		return 1;
	return cores > EVENT_SCAN_THREADS_MAX ? EVENT_SCAN_THREADS_MAX : (unsigned)cores;
}

static enum slot_state fail_slot(struct slot *slot, int code, const char *what)
{
	tm_fail(&slot->err, code, "%s", what);
	return SLOT_FAILED;
}

/* What a thread did before is not known where blocks of events are left out. */
static int mark_temporary(const struct event_scan *scan, size_t index, struct slot *slot)
{
	struct trace_ends_facts facts;
	if (trace_reader_ends_facts(scan->reader, index, &facts))
		return tm_fail(&slot->err, -EBADMSG, "ends are missing");
	struct trace_old_end *rows = tm_alloc_array(facts.count + 1, sizeof *rows);
	int rc = rows ? trace_reader_ends(scan->reader, index, rows, &slot->err) : -ENOMEM;
	size_t next = 0;
	for (size_t i = 0; i < slot->facts.event_count && next < facts.count && !rc; i++) {
		struct trace_event *event = &slot->events[i];
		if (event->block_id != rows[next].block_id || event->op == TRACE_ALLOC ||
		    event->op == TRACE_REALLOC_ALLOC)
			continue;
		event->flags = rows[next++].is_temporary ? TRACE_EVENT_TEMPORARY : 0;
	}
	tm_free(rows);
	return rc;
}

static enum slot_state decode(const struct event_scan *scan, size_t index, struct slot *slot)
{
	if (trace_reader_event_block(scan->reader, index, &slot->facts))
		return fail_slot(slot, -ENOENT, "the trace has no such block of events");
	if (scan->skip && scan->skip(scan->skip_ctx, index))
		return SLOT_SKIPPED;
	size_t count = slot->facts.event_count;
	if (count > EVENT_SCAN_BLOCK_MAX)
		return SLOT_DAMAGED;
	if (count > slot->room) {
		slot->room = 0;
		slot->events = tm_free(slot->events);
		slot->events = tm_grow_array(NULL, count, sizeof *slot->events);
		if (!slot->events)
			return fail_slot(slot, -ENOMEM, "no memory to read the events");
		slot->room = count;
	}
	int rc = scan->addresses
			 ? trace_reader_events(scan->reader, index, slot->events, &slot->err)
			 : trace_reader_plain_events(scan->reader, index, slot->events, &slot->err);
	if (!rc && scan->marks)
		rc = mark_temporary(scan, index, slot);
	if (rc == -EBADMSG)
		return SLOT_DAMAGED;
	if (!rc && scan->digest)
		rc = scan->digest(scan->ctx, index, &slot->facts, slot->events, &slot->memory);
	slot->err.code = rc;
	return rc ? SLOT_FAILED : SLOT_DECODED;
}

/* In the asking thread: hand a block on. */
static int look_at(const struct event_scan *scan, size_t index, const struct slot *slot,
		   struct event_scan_counts *counts, struct tm_error *err)
{
	switch (slot->state) {
	case SLOT_DECODED:
		counts->blocks++;
		if (scan->digest)
			return scan->digested(scan->ctx, &slot->facts, slot->memory);
		return scan->fn(scan->ctx, index, &slot->facts, slot->events);
	case SLOT_SKIPPED:
		counts->skipped++;
		return 0;
	case SLOT_DAMAGED:
		counts->blocks++;
		counts->damaged_events += slot->facts.event_count;
		return scan->damaged ? scan->damaged(scan->ctx, index, &slot->facts) : 0;
	case SLOT_EMPTY:
	case SLOT_FAILED:
		break;
	}
	return tm_fail(err, slot->err.code ? slot->err.code : -EIO, "%s", slot->err.text);
}

static void done_slot(const struct event_scan *scan, struct slot *slot)
{
	tm_free(slot->events);
	if (slot->memory && scan->done_memory)
		scan->done_memory(slot->memory);
	tm_free(slot->memory);
}

static int run_alone(const struct event_scan *scan, struct event_scan_counts *counts,
		     struct tm_error *err)
{
	struct slot slot = {0};
	int rc = 0;
	for (size_t i = scan->first; i < scan->end && !rc; i++) {
		slot.state = decode(scan, i, &slot);
		rc = look_at(scan, i, &slot, counts, err);
	}
	done_slot(scan, &slot);
	return rc;
}

static void swap_events(struct slot *a, struct slot *b)
{
	struct slot other = *a;
	a->events = b->events;
	a->room = b->room;
	b->events = other.events;
	b->room = other.room;
}

/* Events that are digested where they are decoded need no room of their own per block. */
static enum slot_state decode_with(const struct event_scan *scan, size_t index, struct slot *slot,
				   struct slot *own)
{
	if (scan->digest)
		swap_events(slot, own);
	enum slot_state state = decode(scan, index, slot);
	if (scan->digest)
		swap_events(slot, own);
	return state;
}

static void *work(void *ctx)
{
	struct run *run = ctx;
	struct slot own = {0};
	pthread_mutex_lock(&run->lock);
	while (!run->stop && run->next < run->scan->end) {
		if (run->next - run->taken >= run->slot_count) {
			pthread_cond_wait(&run->emptied, &run->lock);
			continue;
		}
		size_t index = run->next++;
		struct slot *slot = &run->slots[index % run->slot_count];
		pthread_mutex_unlock(&run->lock);
		enum slot_state state = decode_with(run->scan, index, slot, &own);
		pthread_mutex_lock(&run->lock);
		slot->state = state;
		pthread_cond_signal(&run->ready);
	}
	pthread_mutex_unlock(&run->lock);
	tm_free(own.events);
	return NULL;
}

static int consume(struct run *run, struct event_scan_counts *counts, struct tm_error *err)
{
	int rc = 0;
	for (size_t i = run->scan->first; i < run->scan->end && !rc; i++) {
		struct slot *slot = &run->slots[i % run->slot_count];
		pthread_mutex_lock(&run->lock);
		while (slot->state == SLOT_EMPTY)
			pthread_cond_wait(&run->ready, &run->lock);
		pthread_mutex_unlock(&run->lock);
		rc = look_at(run->scan, i, slot, counts, err);
		pthread_mutex_lock(&run->lock);
		slot->state = SLOT_EMPTY;
		run->taken = i + 1;
		pthread_cond_broadcast(&run->emptied);
		pthread_mutex_unlock(&run->lock);
	}
	return rc;
}

static int run_threads(const struct event_scan *scan, unsigned threads,
		       struct event_scan_counts *counts, struct tm_error *err)
{
	struct run run = {
		.scan = scan,
		.slot_count = 2 * (size_t)threads,
		.next = scan->first,
		.taken = scan->first,
	};
	pthread_t workers[EVENT_SCAN_THREADS_MAX];
	unsigned started = 0;
	pthread_mutex_init(&run.lock, NULL);
	pthread_cond_init(&run.ready, NULL);
	pthread_cond_init(&run.emptied, NULL);
	while (started < threads && !pthread_create(&workers[started], NULL, work, &run))
		started++;
	int rc = started ? consume(&run, counts, err) : run_alone(scan, counts, err);
	pthread_mutex_lock(&run.lock);
	run.stop = true;
	pthread_cond_broadcast(&run.emptied);
	pthread_mutex_unlock(&run.lock);
	for (unsigned i = 0; i < started; i++)
		pthread_join(workers[i], NULL);
	for (size_t i = 0; i < run.slot_count; i++)
		done_slot(scan, &run.slots[i]);
	pthread_cond_destroy(&run.ready);
	pthread_cond_destroy(&run.emptied);
	pthread_mutex_destroy(&run.lock);
	return rc;
}

int event_scan_run(const struct event_scan *scan, struct event_scan_counts *counts,
		   struct tm_error *err)
{
	unsigned threads = event_scan_threads(scan->threads);
	size_t blocks = scan->end > scan->first ? scan->end - scan->first : 0;
	if (threads < 2 || blocks < 4)
		return run_alone(scan, counts, err);
	return run_threads(scan, threads, counts, err);
}

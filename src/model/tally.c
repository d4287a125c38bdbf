/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tally.h"

#include <errno.h>
#include <stdlib.h>

#include "base/memory.h"
#include "model/event_scan.h"

/* What one block of events adds to a stack. */
enum { TALLY_END, TALLY_BIRTH };
struct tally_row {
	uint32_t stack_id;
	uint32_t temporary, failed;
	uint64_t count[2]; /* ends, births */
	uint64_t bytes[2];
};

/* What one block of events adds to everything; memory that is used block after block. */
struct digest {
	struct tally_row *rows; /* in order of appearance */
	size_t count, rows_room;
	uint32_t *row_of;     /* by stack_id: row + 1, 0 for all between blocks */
	uint64_t *last_block; /* by thread_id: what it allocated last, plus 1; older blocks' stay */
	struct trace_old_end *ends;
	size_t ends_room, ends_count, ends_used;
	/* Of this block. Sums of live sizes are relative to its start. */
	uint64_t first_block_id;
	uint64_t births, freed_unseen, freed_older, end_us;
	int64_t live_bytes, live_blocks;
	int64_t max_bytes, max_blocks; /* above 0: the first highest moment */
	uint64_t max_us;
	uint32_t max_end; /* events up to and with it */
	bool rss_known;   /* the moment of the largest sample is within */
	int64_t rss_bytes;
	bool odd; /* something that this way cannot know */
};

/* A stack's sums in the order of blocks. */
struct total {
	struct trace_sum sum; /* peak_*: live before the block of the peak, as of `epoch` */
	uint32_t epoch;
};

struct run {
	struct trace_reader *reader;
	const struct tally_options *options;
	size_t stack_count, thread_count;
	struct total *totals; /* by stack_id */
	uint32_t epoch;       /* rises with each block that has a new peak */
	uint64_t live_bytes, live_blocks, births;
	size_t peak_index; /* block of events of the peak so far; SIZE_MAX: there is none */
	uint32_t peak_end;
	size_t next; /* block to come */
	struct tally done;
	struct tm_error *err;
};

/* ---- one block of events ---- */

static void digest_done(void *memory)
{
	struct digest *d = memory;
	tm_free(d->rows);
	tm_free(d->row_of);
	tm_free(d->last_block);
	tm_free(d->ends);
}

/* Every event can have a stack of its own. */
static int digest_room(struct digest *d, size_t events, size_t ends)
{
	if (events > d->rows_room) {
		d->rows_room = 0;
		tm_free(d->rows);
		d->rows = tm_grow_array(NULL, events, sizeof *d->rows);
		d->rows_room = d->rows ? events : 0;
	}
	if (ends > d->ends_room) {
		d->ends_room = 0;
		tm_free(d->ends);
		d->ends = tm_grow_array(NULL, ends, sizeof *d->ends);
		d->ends_room = d->ends ? ends : 0;
	}
	return d->rows_room >= events && d->ends_room >= ends ? 0 : -ENOMEM;
}

static int digest_prepare(const struct run *run, size_t events, size_t ends, void **memory)
{
	struct digest *d = *memory;
	if (!d) {
		*memory = d = tm_alloc(sizeof *d);
		if (!d)
			return -ENOMEM;
		d->row_of = tm_alloc_array(run->stack_count + 1, sizeof *d->row_of);
		d->last_block = tm_alloc_array(run->thread_count + 1, sizeof *d->last_block);
	}
	struct digest kept = {.rows = d->rows,
			      .rows_room = d->rows_room,
			      .row_of = d->row_of,
			      .last_block = d->last_block,
			      .ends = d->ends,
			      .ends_room = d->ends_room};
	*d = kept;
	return d->row_of && d->last_block ? digest_room(d, events, ends) : -ENOMEM;
}

static inline struct tally_row *row_at(struct digest *d, uint32_t stack_id)
{
	uint32_t *place = &d->row_of[stack_id];
	if (__builtin_expect(*place == 0, 0)) {
		d->rows[d->count] = (struct tally_row){.stack_id = stack_id};
		*place = (uint32_t)++d->count;
	}
	return &d->rows[*place - 1];
}

/* A birth or an end. Which of the two comes next is as good as random: no branch depends on it. */
static inline void count_move(struct digest *d, const struct trace_event *event, uint32_t at,
			      const struct trace_old_end *old)
{
	unsigned op = event->op, is_birth = !((op ^ op >> 1) & 1);
	uint64_t size_bytes = event->size_bytes, *last_block = &d->last_block[event->thread_id];
	uint32_t stack_id = event->stack_id;
	bool temporary = *last_block == event->block_id + 1;
	if (old) {
		size_bytes = old->size_bytes;
		stack_id = old->stack_id;
		temporary = old->is_temporary;
	}
	uint64_t count = 1;
	if (__builtin_expect(trace_word_sampled(size_bytes), 0)) {
		struct trace_weight weight = trace_weigh_sampled(size_bytes, event->block_id);
		count = weight.count;
		size_bytes = weight.bytes;
		temporary = false;
	}
	struct tally_row *row = row_at(d, stack_id);
	row->count[is_birth] += count;
	row->bytes[is_birth] += size_bytes;
	row->temporary += temporary & (op == TRACE_FREE);
	d->births += is_birth;
	int64_t sign = 2 * (int64_t)is_birth - 1;
	d->live_blocks += sign * (int64_t)count;
	d->live_bytes += sign * (int64_t)size_bytes;
	*last_block = (event->block_id + 1) * is_birth;
	if (d->live_bytes > d->max_bytes) {
		d->max_bytes = d->live_bytes;
		d->max_blocks = d->live_blocks;
		d->max_end = at + 1;
	}
}
_Static_assert(TRACE_ALLOC == 0 && TRACE_FREE == 1 && TRACE_REALLOC_FREE == 2 &&
		       TRACE_REALLOC_ALLOC == 3,
	       "count_move() tells births from ends by their bits");

/* What ENDS say of the end of a block that is older than this block of events; NULL: nothing. */
static inline const struct trace_old_end *next_old(struct digest *d, uint64_t block_id)
{
	if (__builtin_expect(d->ends_used == d->ends_count ||
				     d->ends[d->ends_used].block_id != block_id,
			     0)) {
		d->odd = true;
		return NULL;
	}
	return &d->ends[d->ends_used++];
}

/* Made by the collector: nothing that the thread did. */
static void count_unseen(struct digest *d, const struct trace_event *event)
{
	const struct trace_old_end *old = NULL;
	if (event->block_id < d->first_block_id && !(old = next_old(d, event->block_id)))
		return;
	struct trace_weight weight =
		trace_weigh(old ? old->size_bytes : event->size_bytes, event->block_id);
	struct tally_row *row = row_at(d, old ? old->stack_id : event->stack_id);
	row->count[TALLY_END] += weight.count;
	row->bytes[TALLY_END] += weight.bytes;
	d->live_blocks -= (int64_t)weight.count;
	d->live_bytes -= (int64_t)weight.bytes;
	d->freed_unseen++;
}

static void count_other(struct digest *d, const struct trace_event *event)
{
	if (event->op == TRACE_ALLOC_FAIL) {
		row_at(d, event->stack_id)->failed++;
	} else if (event->op == TRACE_REALLOC_UNDO) {
		d->odd = true;
	} else if (event->op == TRACE_FREE_UNSEEN && event->block_id != TRACE_NO_BLOCK) {
		count_unseen(d, event);
	} else { /* a block that was never seen ended */
		d->freed_older++;
		d->last_block[event->thread_id] = 0;
	}
}

static void count_events(struct digest *d, const struct trace_event *events, uint32_t first,
			 uint32_t end)
{
	for (uint32_t i = first; i < end; i++) {
		const struct trace_event *event = &events[i];
		if (__builtin_expect(event->op > TRACE_REALLOC_ALLOC ||
					     event->block_id == TRACE_NO_BLOCK,
				     0)) {
			count_other(d, event);
		} else if (event->block_id >= d->first_block_id) {
			count_move(d, event, i, NULL);
		} else {
			const struct trace_old_end *old = next_old(d, event->block_id);
			if (!old)
				return;
			count_move(d, event, i, old);
		}
	}
}

/* The first event after a moment; `count` if there is none. Times do not fall. */
static uint32_t first_after(const struct trace_event *events, uint32_t count, uint64_t time_us)
{
	uint32_t low = 0, high = count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (events[middle].time_ns / 1000 > time_us)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static int digest_events(const struct run *run, size_t index, const struct trace_event_block *facts,
			 const struct trace_event *events, struct digest *d, size_t ends_count)
{
	uint32_t count = (uint32_t)facts->event_count;
	struct tm_error ignored;
	int rc = trace_reader_ends(run->reader, index, d->ends, &ignored);
	if (rc)
		return rc;
	d->first_block_id = facts->first_block_id;
	d->ends_count = ends_count;
	uint32_t moment = first_after(events, count, run->options->rss_us);
	count_events(d, events, 0, moment);
	d->rss_known = moment < count;
	d->rss_bytes = d->live_bytes;
	if (!d->odd)
		count_events(d, events, moment, count);
	d->odd |= d->ends_used != ends_count;
	d->end_us = count ? events[count - 1].time_ns / 1000 : 0;
	d->max_us = d->max_end ? events[d->max_end - 1].time_ns / 1000 : 0;
	return 0;
}

static int digest_block(const void *ctx, size_t index, const struct trace_event_block *facts,
			const struct trace_event *events, void **memory)
{
	const struct run *run = ctx;
	struct trace_ends_facts ends;
	if (trace_reader_ends_facts(run->reader, index, &ends))
		return -EBADMSG;
	int rc = digest_prepare(run, facts->event_count + 1, ends.count + 1, memory);
	struct digest *d = *memory;
	if (!rc)
		rc = digest_events(run, index, facts, events, d, ends.count);
	for (size_t i = 0; i < (d ? d->count : 0); i++)
		d->row_of[d->rows[i].stack_id] = 0;
	return rc;
}

/* ---- all blocks, in order ---- */

static int not_for_this(const struct run *run)
{
	return tm_fail(run->err, -EBADMSG, "the events need another way");
}

/* What each stack has live before a block with a new peak is what it has until it changes. */
static void add_row(struct run *run, const struct tally_row *row)
{
	struct total *total = &run->totals[row->stack_id];
	struct trace_sum *sum = &total->sum;
	if (total->epoch != run->epoch) {
		total->epoch = run->epoch;
		sum->peak_count = sum->births - sum->deaths;
		sum->peak_bytes = sum->birth_bytes - sum->death_bytes;
	}
	sum->births += row->count[TALLY_BIRTH];
	sum->birth_bytes += row->bytes[TALLY_BIRTH];
	sum->deaths += row->count[TALLY_END];
	sum->death_bytes += row->bytes[TALLY_END];
	sum->temporary += row->temporary;
	sum->failed += row->failed;
}

static void look_at_peak(struct run *run, const struct digest *d)
{
	struct tally *done = &run->done;
	if (!d->max_end || run->live_bytes + (uint64_t)d->max_bytes <= done->peak_bytes)
		return;
	done->peak_bytes = run->live_bytes + (uint64_t)d->max_bytes;
	done->peak_blocks = run->live_blocks + (uint64_t)d->max_blocks;
	done->peak_us = d->max_us;
	run->peak_index = run->next;
	run->peak_end = d->max_end;
	run->epoch++;
}

/* Whether this block can follow what came before it. */
static bool follows(const struct run *run, const struct trace_event_block *facts,
		    const struct digest *d)
{
	return !d->odd && facts->first_event == run->done.events &&
	       facts->first_block_id == run->births &&
	       facts->start_ns / 1000 >= run->done.last_us &&
	       (facts->max_size_bytes <= run->options->most_bytes ||
		facts->min_size_bytes > facts->max_size_bytes) &&
	       run->live_bytes < UINT64_MAX / 4;
}

static int add_digest(void *ctx, const struct trace_event_block *facts, const void *memory)
{
	struct run *run = ctx;
	const struct digest *d = memory;
	struct tally *done = &run->done;
	if (!follows(run, facts, d))
		return not_for_this(run);
	look_at_peak(run, d);
	for (size_t i = 0; i < d->count; i++)
		add_row(run, &d->rows[i]);
	if (!done->rss_known && d->rss_known) {
		done->rss_known = true;
		done->rss_heap_bytes = run->live_bytes + (uint64_t)d->rss_bytes;
	}
	run->live_bytes += (uint64_t)d->live_bytes;
	run->live_blocks += (uint64_t)d->live_blocks;
	run->births += d->births;
	run->next++;
	done->freed_unseen += d->freed_unseen;
	done->freed_older += d->freed_older;
	done->events += facts->event_count;
	done->last_us = d->end_us > done->last_us ? d->end_us : done->last_us;
	const struct tally_options *options = run->options;
	if (options->progress && options->progress(options->ctx, done->events, options->all_events))
		return tm_fail(run->err, -ECANCELED, "stopped");
	return 0;
}

static int no_way(void *ctx, size_t index, const struct trace_event_block *facts)
{
	(void)index;
	(void)facts;
	return not_for_this(ctx);
}

/* ---- the peak ---- */

/* Shares are what was live before the block of the peak; its events up to the peak come on top. */
static int add_shares(struct run *run)
{
	for (size_t i = 0; i < run->stack_count; i++) {
		struct total *total = &run->totals[i];
		if (total->epoch == run->epoch)
			continue;
		total->sum.peak_count = total->sum.births - total->sum.deaths;
		total->sum.peak_bytes = total->sum.birth_bytes - total->sum.death_bytes;
	}
	if (run->peak_index == SIZE_MAX)
		return 0;
	struct trace_event_block facts;
	int rc = trace_reader_event_block(run->reader, run->peak_index, &facts);
	if (rc)
		return tm_fail(run->err, rc, "the block of events of the peak is gone");
	struct trace_event *events = tm_grow_array(NULL, facts.event_count, sizeof *events);
	void *memory = NULL;
	rc = events ? trace_reader_plain_events(run->reader, run->peak_index, events, run->err)
		    : -ENOMEM;
	facts.event_count = run->peak_end;
	if (!rc)
		rc = digest_block(run, run->peak_index, &facts, events, &memory);
	const struct digest *d = memory;
	for (size_t i = 0; !rc && i < d->count; i++) {
		const struct tally_row *row = &d->rows[i];
		struct trace_sum *sum = &run->totals[row->stack_id].sum;
		sum->peak_count += (uint64_t)row->count[TALLY_BIRTH] - row->count[TALLY_END];
		sum->peak_bytes += row->bytes[TALLY_BIRTH] - row->bytes[TALLY_END];
	}
	if (memory)
		digest_done(memory);
	tm_free(memory);
	tm_free(events);
	return rc;
}

/* ---- all together ---- */

size_t tally_reach(const struct trace_reader *r)
{
	size_t count = trace_reader_event_block_count(r), i = 0;
	struct trace_ends_facts ends;
	while (i < count && !trace_reader_ends_facts(r, i, &ends) && !ends.undone)
		i++;
	return i;
}

static int finish(struct run *run, struct tally *ret)
{
	struct trace_sum *sums = tm_alloc_array(run->stack_count + 1, sizeof *sums);
	if (!sums)
		return -ENOMEM;
	size_t count = 0;
	for (size_t i = 0; i < run->stack_count; i++) {
		const struct trace_sum *sum = &run->totals[i].sum;
		if (!sum->births && !sum->deaths && !sum->failed)
			continue;
		sums[count] = *sum;
		sums[count++].stack_id = (uint32_t)i;
	}
	run->done.sums = sums;
	run->done.count = count;
	*ret = run->done;
	return 0;
}

int tally_run(struct trace_reader *r, const struct tally_options *options, struct tally *ret,
	      struct tm_error *err)
{
	struct run run = {.reader = r, .options = options, .peak_index = SIZE_MAX, .err = err};
	const struct trace_stack *stacks;
	const struct trace_thread *threads;
	int rc = trace_reader_stacks(r, &stacks, &run.stack_count, err);
	if (!rc)
		rc = trace_reader_threads(r, &threads, &run.thread_count, err);
	if (rc)
		return rc;
	struct event_scan_counts counts = {0};
	const struct event_scan scan = {
		.reader = r,
		.end = options->blocks,
		.threads = options->threads,
		.digest = digest_block,
		.digested = add_digest,
		.done_memory = digest_done,
		.damaged = no_way,
		.ctx = &run,
	};
	run.totals = tm_alloc_array(run.stack_count + 1, sizeof *run.totals);
	rc = run.totals ? event_scan_run(&scan, &counts, err) : -ENOMEM;
	if (!rc)
		rc = add_shares(&run);
	if (!rc)
		rc = finish(&run, ret);
	tm_free(run.totals);
	if (rc == -ENOMEM)
		tm_fail(err, rc, "no memory for the sums of %zu stacks", run.stack_count);
	return rc;
}

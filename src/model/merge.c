/* SPDX-License-Identifier: Apache-2.0 */
#include "model/merge.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "model/blockmap.h"
#include "model/copy.h"
#include "model/cursor.h"
#include "model/merge_join.h"
#include "model/merge_names.h"
#include "model/merge_others.h"
#include "model/state.h"

enum { BATCH = 4096, FACTS_MAX = 64 << 10 };

struct work {
	struct merge_plan plan;
	struct merge_names names;
	struct merge_stream *streams;
	uint32_t *heap; /* of streams, the one with the earliest next thing first */
	size_t heap_count;
	const struct merge_options *options;
	struct tm_error *err;
	struct copy copy;
	struct merge_others others;
	struct trace_event batch[BATCH];
	size_t batched;
	uint64_t now_ns; /* what is written is never earlier than what was */
	uint64_t all, seen;
	bool release;
	struct merge_result done;
};

static int no_memory(const struct work *k)
{
	return tm_fail(k->err, -ENOMEM, "no memory to merge the traces");
}

/* ---- writing ---- */

static int flush(struct work *k)
{
	size_t count = k->batched;
	k->batched = 0;
	int rc = merge_names_flush(&k->names);
	if (!rc && count)
		rc = copy_events(&k->copy, k->batch, count);
	return rc;
}

static int put(struct work *k, const struct trace_event *event)
{
	k->batch[k->batched] = *event;
	if (event->time_ns > k->now_ns)
		k->now_ns = event->time_ns;
	k->batch[k->batched++].time_ns = k->now_ns;
	k->done.events++;
	return k->batched == BATCH ? flush(k) : 0;
}

/* ---- one stream ---- */

static int next_block(struct work *k, struct merge_stream *s)
{
	uint64_t expected = s->cursor.block.first_event + s->cursor.block.event_count;
	int rc = cursor_next(&s->cursor, k->err);
	if (rc <= 0)
		return rc;
	s->at = 0;
	if (s->cursor.damaged || s->cursor.block.first_event != expected)
		return tm_fail(k->err, -ENODATA,
			       "events of process %u before number %llu are damaged or not stored, "
			       "and sums would be wrong: 'tidemark repair' says how much is left",
			       k->plan.parts[s->part].meta->pid,
			       (unsigned long long)(s->cursor.block.first_event +
						    s->cursor.block.event_count));
	k->seen += s->cursor.block.event_count;
	rc = k->options->progress ? k->options->progress(k->options->ctx, k->seen, k->all) : 0;
	return rc ? rc : 1;
}

/* The stream stands at an event, or its part has no more: then s->at is the end of the block. */
static int fill(struct work *k, struct merge_stream *s)
{
	int rc = 1;
	while (s->at >= s->cursor.block.event_count && rc > 0)
		rc = next_block(k, s);
	return rc < 0 ? rc : 0;
}

static int open_part(struct work *k, struct merge_stream *s, size_t part)
{
	s->part = part;
	s->at = 0;
	cursor_done(&s->cursor);
	cursor_init(&s->cursor, k->plan.parts[part].reader);
	int rc = merge_others_open(&k->others, s, k->err);
	if (!rc)
		rc = fill(k, s);
	if (rc || !merge_is_next_piece(&k->plan, part))
		return rc;
	/* A border: what lives here is what lived there. */
	struct merge_border border = {.stream = s, .names = &k->names, .err = k->err};
	rc = merge_border_open(&border);
	while (!rc && s->at < s->cursor.block.event_count && !s->cursor.events[s->at].time_ns) {
		rc = merge_border_event(&border, &s->cursor.events[s->at++]);
		if (!rc)
			rc = fill(k, s);
	}
	if (!rc)
		rc = merge_border_close(&border, &k->done.joined_blocks);
	merge_border_done(&border);
	return rc;
}

static uint64_t next_time(const struct work *k, const struct merge_stream *s)
{
	uint64_t event_ns =
		s->at < s->cursor.block.event_count ? s->cursor.events[s->at].time_ns : UINT64_MAX;
	uint64_t other_ns = merge_others_next(s);
	uint64_t next_ns = event_ns < other_ns ? event_ns : other_ns;
	if (next_ns == UINT64_MAX)
		return next_ns;
	return next_ns + k->plan.parts[s->part].offset_ns;
}

/* Gives an event its merged ids, and remembers whose it is. */
static int renumber(struct work *k, struct merge_stream *s, struct trace_event *event)
{
	const struct merge_ids *ids = &k->names.ids[s->part];
	uint32_t old_thread = event->thread_id;
	event->thread_id += ids->thread_base;
	event->time_ns += k->plan.parts[s->part].offset_ns;
	event->flags = 0;
	if (k->plan.stream_count > 1)
		event->address = 0;
	bool ends = event->op == TRACE_FREE || event->op == TRACE_REALLOC_FREE ||
		    event->op == TRACE_FREE_UNSEEN || event->op == TRACE_FREE_OLDER;
	int rc;
	if (ends) {
		event->stack_id = 0; /* the model knows it from the block's birth */
		rc = event->free_stack_id
			     ? merge_names_stack(&k->names, s->part, &event->free_stack_id)
			     : 0;
	} else {
		event->free_stack_id = 0;
		rc = merge_names_stack(&k->names, s->part, &event->stack_id);
	}
	if (!rc)
		rc = merge_stream_follow(s, event, old_thread, &k->copy.births);
	if (rc)
		return tm_fail(k->err, rc,
			       rc == -ENOMEM ? "no memory to merge the traces"
					     : "an event refers to what is not there");
	return 0;
}

/* The process has ended: its memory is the system's again. */
static int release(struct work *k, struct merge_stream *s)
{
	size_t count = s->live.count;
	struct blockmap_entry *left = blockmap_sorted(&s->live);
	uint64_t end_ns = k->plan.parts[s->part].last_ns + k->plan.parts[s->part].offset_ns;
	int rc = 0;
	if (!left)
		return no_memory(k);
	for (size_t i = 0; i < count && !rc; i++) {
		const struct trace_event event = {
			.time_ns = end_ns,
			.block_id = left[i].new_id,
			.thread_id = k->names.exit_threads[s->number],
			.op = TRACE_FREE,
		};
		/* What a realloc had begun to end is ended already. */
		if (left[i].mark)
			continue;
		rc = put(k, &event);
		k->done.released_blocks++;
	}
	tm_free(left);
	return rc;
}

static bool has_ended(const struct trace_end *end)
{
	return end->cause == TRACE_END_EXIT || end->cause == TRACE_END_SIGNAL ||
	       end->cause == TRACE_END_EXEC || end->cause == TRACE_END_OOM;
}

/* A part is over: the next piece, or the end of the stream. True: it goes on. */
static int end_part(struct work *k, struct merge_stream *s, bool *ret_more)
{
	*ret_more = s->part + 1 < k->plan.first[s->number + 1];
	if (*ret_more)
		return open_part(k, s, s->part + 1);
	int rc = 0;
	if (k->release && has_ended(k->plan.parts[s->part].end))
		rc = release(k, s);
	if (!rc)
		rc = flush(k);
	if (!rc)
		rc = merge_others_end(&k->others, s, &k->now_ns, k->err);
	merge_stream_done(s);
	return rc;
}

/* When the part is over, the end of the process is what comes next. */
static uint64_t stream_key(const struct work *k, const struct merge_stream *s)
{
	uint64_t next_ns = next_time(k, s);
	if (next_ns != UINT64_MAX)
		return next_ns;
	return k->plan.parts[s->part].last_ns + k->plan.parts[s->part].offset_ns;
}

/* Everything of a stream up to the moment at which another is due. */
static int advance(struct work *k, struct merge_stream *s, uint64_t until_ns, bool *ret_more)
{
	int rc = 0;
	*ret_more = true;
	while (!rc && *ret_more && stream_key(k, s) <= until_ns) {
		if (next_time(k, s) == UINT64_MAX) {
			rc = end_part(k, s, ret_more);
			continue;
		}
		bool is_event = s->at < s->cursor.block.event_count;
		uint64_t other_ns = merge_others_next(s);
		if (is_event && s->cursor.events[s->at].time_ns < other_ns) {
			struct trace_event event = s->cursor.events[s->at++];
			rc = renumber(k, s, &event);
			if (!rc)
				rc = put(k, &event);
			if (!rc)
				rc = fill(k, s);
			continue;
		}
		rc = flush(k);
		if (!rc)
			rc = merge_others_take(&k->others, s, &k->now_ns, k->err);
	}
	return rc;
}

/* ---- all streams ---- */

static bool before(const struct work *k, uint32_t a, uint32_t b)
{
	uint64_t x = k->streams[a].key_ns, y = k->streams[b].key_ns;
	return x < y || (x == y && a < b);
}

static void sift_down(struct work *k, size_t at)
{
	for (;;) {
		size_t least = at;
		for (size_t child = 2 * at + 1; child <= 2 * at + 2; child++)
			if (child < k->heap_count && before(k, k->heap[child], k->heap[least]))
				least = child;
		if (least == at)
			return;
		uint32_t moved = k->heap[at];
		k->heap[at] = k->heap[least];
		k->heap[least] = moved;
		at = least;
	}
}

/* How far the first may go before another has something earlier. */
static uint64_t others_due(const struct work *k)
{
	uint64_t due = UINT64_MAX - 1;
	for (size_t i = 1; i <= 2 && i < k->heap_count; i++)
		if (k->streams[k->heap[i]].key_ns < due)
			due = k->streams[k->heap[i]].key_ns;
	return due;
}

static int open_streams(struct work *k)
{
	k->streams = tm_alloc_array(k->plan.stream_count + 1, sizeof *k->streams);
	k->heap = tm_alloc_array(k->plan.stream_count + 1, sizeof *k->heap);
	if (!k->streams || !k->heap)
		return no_memory(k);
	for (size_t i = 0; i < k->plan.stream_count; i++) {
		const struct merge_part *first = &k->plan.parts[k->plan.first[i]];
		merge_stream_init(&k->streams[i], i, k->plan.first[i]);
		/* It is opened when it is due: those that ran before are closed then. */
		k->streams[i].key_ns = first->offset_ns;
		k->heap[k->heap_count++] = (uint32_t)i;
	}
	for (size_t i = k->heap_count; i-- > 0;)
		sift_down(k, i);
	return 0;
}

static int run_streams(struct work *k)
{
	int rc = 0;
	while (k->heap_count && !rc) {
		struct merge_stream *s = &k->streams[k->heap[0]];
		bool more = true;
		if (!s->opened)
			rc = open_part(k, s, s->part);
		s->opened = true;
		if (!rc)
			rc = advance(k, s, others_due(k), &more);
		if (rc)
			break;
		if (more)
			s->key_ns = stream_key(k, s);
		else
			k->heap[0] = k->heap[--k->heap_count];
		sift_down(k, 0);
	}
	return rc ? rc : flush(k);
}

/* ---- begin and end ---- */

static int write_begin(struct work *k, struct trace_writer *w)
{
	const struct merge_plan *plan = &k->plan;
	/* The one that began first stands for all. */
	size_t eldest = 0;
	for (size_t i = 1; i < plan->stream_count; i++)
		if (plan->parts[plan->first[i]].meta->start_unix_ns <
		    plan->parts[plan->first[eldest]].meta->start_unix_ns)
			eldest = i;
	struct trace_meta meta = *plan->parts[plan->first[eldest]].meta;
	for (size_t i = 0; i < plan->part_count; i++) {
		meta.free_stacks |= plan->parts[i].meta->free_stacks;
		meta.unknown |= plan->parts[i].meta->unknown;
	}
	for (size_t i = 0; i < plan->stream_count; i++) {
		const struct trace_meta *other = plan->parts[plan->first[i]].meta;
		if (other->sample_bytes > meta.sample_bytes) {
			meta.sample_bytes = other->sample_bytes;
			meta.mode = "sampled";
		}
	}
	meta.start_unix_ns = plan->start_unix_ns;
	meta.series_id = 0; /* pieces that come later do not fit to it */
	meta.piece = 0;
	if (plan->stream_count > 1) {
		meta.source = "merge";
		meta.addresses = false;
		meta.inherited_blocks = meta.inherited_bytes = 0;
	}
	int rc = trace_writer_begin(w, &meta);
	return rc ? tm_fail(k->err, rc, "the merged trace cannot be written: %s", strerror(-rc))
		  : 0;
}

static void add_end(struct trace_end *sum, const struct trace_end *end)
{
	sum->lost_events += end->lost_events;
	sum->cut_stacks += end->cut_stacks;
	sum->fp_frames += end->fp_frames;
	sum->waited_ns += end->waited_ns;
	sum->collector_cpu_ns += end->collector_cpu_ns;
	sum->children_not_recorded += end->children_not_recorded;
	sum->paused_births += end->paused_births;
	sum->freed_paused += end->freed_paused;
	if (end->collector_bytes > sum->collector_bytes)
		sum->collector_bytes = end->collector_bytes;
	if (end->agent_bytes > sum->agent_bytes)
		sum->agent_bytes = end->agent_bytes;
	if (end->off_reason)
		sum->off_reason = end->off_reason;
}

/* What files of other tools say of themselves; the same sentence once. */
static void add_lines(struct text *out, const char *lines)
{
	while (lines && *lines) {
		size_t bytes = strcspn(lines, "\n");
		const char *have = text_string(out);
		bool known = false;
		while (*have && !known) {
			size_t length = strcspn(have, "\n");
			known = length == bytes && !memcmp(have, lines, bytes);
			have += length + (have[length] == '\n');
		}
		if (bytes && !known && out->length + bytes < FACTS_MAX) {
			text_put_bytes(out, lines, bytes);
			text_put_char(out, '\n');
		}
		lines += bytes + (lines[bytes] == '\n');
	}
}

static int write_facts(struct work *k, struct trace_writer *w, struct trace_end *end)
{
	struct text facts = {0}, suppressions = {0};
	for (size_t i = 0; i < k->plan.part_count; i++) {
		add_lines(&facts, k->plan.parts[i].end->facts);
		add_lines(&suppressions, k->plan.parts[i].end->suppressions);
	}
	int rc = text_error(&facts) || text_error(&suppressions) ? -ENOMEM : 0;
	end->facts = facts.length ? text_string(&facts) : NULL;
	end->suppressions = suppressions.length ? text_string(&suppressions) : NULL;
	if (!rc)
		rc = trace_writer_end(w, end);
	text_done(&facts);
	text_done(&suppressions);
	return rc ? tm_fail(k->err, rc, "the merged trace cannot be written: %s", strerror(-rc))
		  : 0;
}

static int write_end(struct work *k, struct trace_writer *w)
{
	const struct merge_plan *plan = &k->plan;
	struct trace_end end = {0};
	const struct merge_part *last = &plan->parts[0];
	struct model_totals totals;
	for (size_t i = 0; i < plan->part_count; i++) {
		const struct merge_part *part = &plan->parts[i];
		add_end(&end, part->end);
		if (part->last_ns + part->offset_ns >= last->last_ns + last->offset_ns)
			last = part;
	}
	end.cause = last->end->cause;
	end.status = last->end->status;
	end.duration_ns = last->last_ns + last->offset_ns;
	if (k->now_ns > end.duration_ns)
		end.duration_ns = k->now_ns;
	model_totals(k->copy.model, &totals);
	end.freed_unseen = totals.freed_unseen;
	end.freed_older = totals.freed_older;
	if (plan->stream_count > 1)
		snprintf(end.note, sizeof end.note, "Merged: %zu processes, %s.%s",
			 plan->stream_count,
			 plan->by_wall_clock ? "by the wall clock" : "each from its start",
			 k->done.released_blocks
				 ? " What a process left when it ended is not among the unfreed."
				 : "");
	else
		snprintf(end.note, sizeof end.note, "%s", last->end->note);
	int rc = merge_names_symbols(&k->names);
	return rc ? rc : write_facts(k, w, &end);
}

static int merge(struct work *k, struct trace_reader *const *readers, size_t count,
		 struct trace_writer *w)
{
	const struct merge_options *options = k->options;
	int rc = merge_plan_make(&k->plan, readers, count, options->align, k->err);
	if (rc)
		return rc;
	k->done.processes = k->plan.stream_count;
	k->done.pieces = count;
	k->done.by_wall_clock = k->plan.by_wall_clock;
	k->release = k->plan.stream_count > 1 &&
		     (options->unfreed == MERGE_UNFREED_RELEASE ||
		      (options->unfreed == MERGE_UNFREED_AUTO && k->plan.by_wall_clock));
	for (size_t i = 0; i < count; i++) {
		struct cursor cursor;
		cursor_init(&cursor, k->plan.parts[i].reader);
		k->all += cursor_all(&cursor);
	}
	const struct model_options how = {.page_bytes = k->plan.parts[0].meta->page_bytes};
	rc = model_new(&how, &k->copy.model, k->err);
	if (rc)
		return rc;
	k->copy.model->by_block = true;
	k->copy.writer = w;
	k->copy.err = k->err;
	k->others = (struct merge_others){.plan = &k->plan, .names = &k->names, .copy = &k->copy};
	rc = write_begin(k, w);
	if (!rc)
		rc = merge_names_make(&k->names, &k->plan, w, k->err);
	if (!rc)
		rc = open_streams(k);
	if (!rc)
		rc = run_streams(k);
	if (!rc)
		rc = copy_finish(&k->copy);
	return rc ? rc : write_end(k, w);
}

int merge_sections(struct trace_reader *const *readers, size_t count, struct trace_writer *w,
		   const struct merge_options *options, struct merge_result *ret,
		   struct tm_error *err)
{
	struct work *k = tm_alloc(sizeof *k);
	if (!k)
		return tm_fail(err, -ENOMEM, "no memory to merge the traces");
	k->options = options;
	k->err = err;
	*err = (struct tm_error){0};
	int rc = merge(k, readers, count, w);
	for (size_t i = 0; k->streams && i < k->plan.stream_count; i++)
		merge_stream_done(&k->streams[i]);
	tm_free(k->streams);
	tm_free(k->heap);
	if (k->names.plan)
		merge_names_done(&k->names);
	copy_done(&k->copy);
	merge_plan_done(&k->plan);
	if (!rc)
		*ret = k->done;
	tm_free(k);
	return rc;
}

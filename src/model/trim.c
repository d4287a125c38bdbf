/* SPDX-License-Identifier: Apache-2.0 */
#include "model/trim.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "model/copy.h"
#include "model/cursor.h"
#include "model/inherited.h"
#include "model/restack.h"
#include "model/resume.h"
#include "model/state.h"

enum { BATCH = 4096 };

struct work {
	struct trace_reader *r;
	const struct trim_options *options;
	struct tm_error *err;
	struct copy copy;
	struct restack restack;
	struct cursor cursor;
	uint64_t at; /* in the cursor's block: the first event that is not before the part */
	struct model *before;
	struct inherited inherited;
	const struct trace_meta *meta;
	const struct trace_end *end;
	uint64_t first_old_id; /* of the first block born in the part */
	uint64_t all, seen;
	struct trim_result done;
};

static int tell_progress(const struct work *k)
{
	return k->options->progress ? k->options->progress(k->options->ctx, k->seen, k->all) : 0;
}

static int next_block(struct work *k)
{
	uint64_t expected = k->cursor.block.first_event + k->cursor.block.event_count;
	int rc = cursor_next(&k->cursor, k->err);
	if (rc <= 0)
		return rc;
	k->at = 0;
	if (k->cursor.damaged || k->cursor.block.first_event != expected)
		return tm_fail(k->err, -ENODATA,
			       "the events before number %llu are damaged or not stored, and the "
			       "part needs them: 'tidemark repair' says how much is left",
			       (unsigned long long)(k->cursor.block.first_event +
						    k->cursor.block.event_count));
	k->seen += k->cursor.block.event_count;
	rc = tell_progress(k);
	return rc ? rc : 1;
}

/* ---- before the part ---- */

/* Replays what is before the part; the cursor then stands at its first event. */
static int replay_before(struct work *k)
{
	int rc;
	while ((rc = next_block(k)) > 0) {
		uint64_t count = k->cursor.block.event_count;
		while (k->at < count && k->cursor.events[k->at].time_ns < k->options->from_ns)
			k->at++;
		for (uint64_t done = 0; done < k->at; done += BATCH) {
			uint64_t left = k->at - done;
			rc = model_apply(k->before, k->cursor.events + done,
					 left < BATCH ? (size_t)left : BATCH, k->err);
			if (rc)
				return rc;
			if (model_slice_due(k->before))
				model_slice_fold(k->before);
		}
		if (k->at < count)
			break;
	}
	k->first_old_id = k->before->allocations;
	return rc < 0 ? rc : 0;
}

static int map_before(struct work *k)
{
	struct copy *copy = &k->copy;
	int rc = 0;
	copy_skip_moments(copy, k->options->from_ns);
	for (; !rc && copy->next_map < copy->map_count; copy->next_map++) {
		if (copy->maps[copy->next_map].time_ns >= k->options->from_ns)
			break;
		rc = model_apply_map(k->before, &copy->maps[copy->next_map], k->err);
	}
	while (copy->next_sample < copy->sample_count &&
	       copy->samples[copy->next_sample].time_ns < k->options->from_ns)
		copy->next_sample++;
	return rc;
}

/* A thread's first doing in the part: does it free a block that would then seem temporary? */
static void look_at_first(struct work *k, const struct trace_event *event)
{
	if (event->op != TRACE_FREE || event->block_id == TRACE_NO_BLOCK)
		return;
	struct inherited_block *block = inherited_find(&k->inherited, event->block_id);
	if (!block || block->thread_id != event->thread_id)
		return;
	const struct thread_state *thread = threads_at(&k->before->threads, event->thread_id);
	block->first = thread->last_block != event->block_id + 1;
}

/* A pass over the part's events for what each thread does first in it. */
static int look_ahead(struct work *k)
{
	size_t threads = k->copy.thread_count;
	bool *seen = tm_alloc_array(threads + 1, sizeof *seen);
	if (!seen)
		return tm_fail(k->err, -ENOMEM, "no memory to trim the trace");
	struct cursor cursor;
	cursor_init(&cursor, k->r);
	cursor.next = k->cursor.next ? k->cursor.next - 1 : 0;
	size_t unseen = threads;
	bool over = false;
	int rc = 0;
	while (!over && unseen && (rc = cursor_next(&cursor, k->err)) > 0) {
		for (uint64_t i = 0; i < cursor.block.event_count && !cursor.damaged; i++) {
			const struct trace_event *event = &cursor.events[i];
			over |= event->time_ns > k->options->to_ns;
			if (event->time_ns < k->options->from_ns || over ||
			    event->op == TRACE_ALLOC_FAIL || event->thread_id >= threads ||
			    seen[event->thread_id])
				continue;
			seen[event->thread_id] = true;
			unseen--;
			look_at_first(k, event);
		}
	}
	cursor_done(&cursor);
	tm_free(seen);
	return rc < 0 ? rc : 0;
}

/* The model does not keep by which call a block was made: its birth says. */
static int find_apis(struct work *k)
{
	struct cursor cursor;
	size_t next = 0;
	cursor_init(&cursor, k->r);
	int rc = 0;
	while (next < k->inherited.count && !rc && cursor.next < cursor.count) {
		struct trace_event_block after;
		size_t skip = cursor.next + 1;
		if (skip < cursor.count && !trace_reader_event_block(k->r, skip, &after) &&
		    after.first_block_id <= k->inherited.blocks[next].old_id) {
			cursor.next++;
			continue;
		}
		rc = cursor_next(&cursor, k->err);
		if (rc <= 0 || cursor.damaged)
			break;
		rc = 0;
		for (uint64_t i = 0; i < cursor.block.event_count && next < k->inherited.count;
		     i++) {
			const struct trace_event *event = &cursor.events[i];
			if (event->block_id != k->inherited.blocks[next].old_id ||
			    (event->op != TRACE_ALLOC && event->op != TRACE_REALLOC_ALLOC))
				continue;
			k->inherited.blocks[next].api = event->api;
			k->inherited.blocks[next++].align_log2 = event->align_log2;
		}
	}
	cursor_done(&cursor);
	return rc < 0 ? rc : 0;
}

static int gather(struct work *k)
{
	uint32_t threads = (uint32_t)k->copy.thread_count;
	int rc = replay_before(k);
	if (!rc)
		rc = map_before(k);
	if (!rc && inherited_gather(&k->inherited, k->before, threads))
		rc = tm_fail(k->err, -ENOMEM, "no memory for the blocks that live then");
	if (!rc)
		rc = look_ahead(k);
	if (!rc)
		rc = find_apis(k);
	if (!rc && inherited_number(&k->inherited, threads))
		rc = tm_fail(k->err, -ENOMEM, "no memory for the blocks that live then");
	return rc;
}

/* ---- writing ---- */

/* New stacks first, then the events. */
static int put(struct work *k, struct trace_event *events, size_t count)
{
	int rc = 0;
	for (size_t i = 0; i < count && !rc; i++)
		rc = restack_event(&k->restack, &events[i]);
	if (!rc)
		rc = restack_write(&k->restack, k->copy.writer);
	if (rc)
		return tm_fail(k->err, rc, "the new trace cannot be written: %s", strerror(-rc));
	return copy_events(&k->copy, events, count);
}

static size_t birth_events(const struct inherited_block *block, struct trace_event *events)
{
	size_t count = 0;
	events[count++] = (struct trace_event){
		.op = TRACE_ALLOC,
		.block_id = block->new_id,
		.address = block->address,
		.size_bytes = block->size_bytes,
		.stack_id = block->stack_id,
		.thread_id = block->thread_id,
		.api = block->api,
		.align_log2 = block->align_log2,
	};
	if (block->pending)
		events[count++] = (struct trace_event){.op = TRACE_REALLOC_FREE,
						       .block_id = block->new_id,
						       .thread_id = block->realloc_thread};
	if (block->reset)
		events[count++] = (struct trace_event){.op = TRACE_FREE_OLDER,
						       .block_id = TRACE_NO_BLOCK,
						       .thread_id = block->thread_id};
	return count;
}

static int write_inherited(struct work *k)
{
	struct trace_event events[BATCH];
	size_t count = 0;
	int rc = 0;
	uint32_t *order = inherited_order(&k->inherited);
	if (!order)
		return tm_fail(k->err, -ENOMEM, "no memory for the blocks that live then");
	for (size_t i = 0; i < k->inherited.count && !rc; i++) {
		count += birth_events(&k->inherited.blocks[order[i]], events + count);
		if (count + 3 > BATCH || i + 1 == k->inherited.count) {
			rc = put(k, events, count);
			count = 0;
		}
	}
	tm_free(order);
	k->copy.births = k->inherited.count;
	k->done.inherited_blocks = inherited_blocks(&k->inherited);
	k->done.inherited_bytes = k->inherited.bytes;
	/* Slice 0 is what was inherited: questions about the rest need no event of it. */
	return rc || !k->inherited.count ? rc : copy_cut(&k->copy);
}

static int write_map(void *ctx, const struct trace_map_event *event)
{
	struct work *k = ctx;
	int rc = model_apply_map(k->copy.model, event, k->err);
	return rc ? rc : trace_writer_maps(k->copy.writer, event, 1);
}

static void renumber(struct work *k, struct trace_event *event)
{
	event->time_ns = copy_time(&k->copy, event->time_ns);
	event->flags = 0;
	if (event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC) {
		event->block_id = k->copy.births++;
		return;
	}
	if (event->block_id == TRACE_NO_BLOCK)
		return;
	if (event->block_id >= k->first_old_id) {
		event->block_id = event->block_id - k->first_old_id + k->inherited.count;
		return;
	}
	const struct inherited_block *block = inherited_find(&k->inherited, event->block_id);
	event->block_id = block ? block->new_id : TRACE_NO_BLOCK;
}

/* The part's events of one block of the file; *ret_over at its end. */
static int write_block(struct work *k, bool *ret_over)
{
	uint64_t end = k->cursor.block.event_count;
	int rc = 0;
	for (uint64_t i = k->at; i < end; i++)
		if (k->cursor.events[i].time_ns > k->options->to_ns)
			end = i;
	*ret_over = end < k->cursor.block.event_count;
	while (k->at < end && !rc) {
		struct trace_event *events = k->cursor.events + k->at;
		size_t count = end - k->at < BATCH ? (size_t)(end - k->at) : BATCH;
		rc = copy_others(&k->copy, events[count - 1].time_ns);
		for (size_t i = 0; i < count; i++)
			renumber(k, &events[i]);
		if (!rc)
			rc = put(k, events, count);
		k->at += count;
		k->done.events += count;
	}
	return rc;
}

static int write_part(struct work *k)
{
	bool over = false;
	int rc = 1;
	/* Unless the part begins after the last event, the cursor stands in its first block. */
	if (k->at < k->cursor.block.event_count)
		rc = write_block(k, &over) ? -1 : 1;
	while (rc > 0 && !over) {
		rc = next_block(k);
		if (rc > 0 && write_block(k, &over))
			rc = -1;
	}
	if (rc < 0)
		return k->err->code ? k->err->code : -EIO;
	rc = copy_others(&k->copy, k->options->to_ns);
	return rc ? rc : copy_finish(&k->copy);
}

/* How it is recorded when the part begins, unless it begins with blocks that are a sample. */
static void describe_mode(const struct work *k, struct trace_meta *meta)
{
	uint64_t before = inherited_interval(&k->inherited);
	const struct trace_moment mode = {.kind = TRACE_MOMENT_MODE, .text = k->copy.starts_mode};
	if (mode.text)
		meta->sample_bytes = trace_moment_interval(&mode);
	if (before > meta->sample_bytes)
		meta->sample_bytes = before;
	if (meta->sample_bytes)
		meta->unknown |= TRACE_UNKNOWN_TEMPORARY;
	if (!strcmp(meta->mode, "sampled") || !strcmp(meta->mode, "exact"))
		meta->mode = meta->sample_bytes ? "sampled" : "exact";
}

static int write_begin(struct work *k)
{
	struct trace_meta meta = *k->meta;
	describe_mode(k, &meta);
	meta.start_unix_ns += k->options->from_ns;
	meta.inherited_blocks = inherited_blocks(&k->inherited);
	meta.inherited_bytes = k->inherited.bytes;
	meta.series_id = 0; /* no longer what the pieces before and after it fit to */
	return trace_writer_begin(k->copy.writer, &meta);
}

static uint64_t run_ns(const struct work *k)
{
	uint64_t last_ns = k->end->duration_ns;
	for (size_t i = 0; i < k->cursor.count; i++) {
		struct trace_event_block block;
		if (!trace_reader_event_block(k->r, i, &block) && block.end_ns > last_ns)
			last_ns = block.end_ns;
	}
	return last_ns;
}

static int write_end(struct work *k)
{
	struct trace_end end = *k->end;
	uint64_t last_ns = run_ns(k);
	uint64_t to_ns = k->options->to_ns < last_ns ? k->options->to_ns : last_ns;
	if (to_ns < last_ns) {
		end.cause = TRACE_END_STOPPED;
		end.status = 0;
	}
	end.duration_ns = copy_time(&k->copy, to_ns);
	end.events_not_stored = 0;
	snprintf(end.note, sizeof end.note, "A part: %s to %s of a run of %s.%s%.100s",
		 units_duration(k->options->from_ns).text, units_duration(to_ns).text,
		 units_duration(last_ns).text, k->end->note[0] ? " " : "", k->end->note);
	int rc =
		restack_symbols(&k->restack, k->copy.writer, k->copy.symbols, k->copy.symbol_count);
	if (!rc)
		rc = trace_writer_sources(k->copy.writer, k->copy.sources, k->copy.source_count);
	return rc ? rc : trace_writer_end(k->copy.writer, &end);
}

static int check_range(struct work *k)
{
	uint64_t last_ns = run_ns(k);
	if (k->options->from_ns > k->options->to_ns)
		return tm_fail(k->err, -EINVAL, "the part ends before it begins");
	if (k->options->from_ns > last_ns)
		return tm_fail(k->err, -EINVAL, "the part begins after the end of the run, at %s",
			       units_duration(last_ns).text);
	return 0;
}

static int trim(struct work *k, struct trace_writer *w)
{
	int rc = trace_reader_meta(k->r, &k->meta, k->err);
	if (!rc)
		rc = trace_reader_end(k->r, &k->end, k->err);
	if (!rc)
		rc = copy_init(&k->copy, k->r, w, k->meta->page_bytes, k->err);
	if (rc)
		return rc;
	k->copy.from_ns = k->options->from_ns;
	k->copy.start_ns = TRIM_START_NS;
	cursor_init(&k->cursor, k->r);
	k->all = 2 * cursor_all(&k->cursor);
	const struct model_options how = {.page_bytes = k->meta->page_bytes};
	rc = check_range(k);
	if (!rc)
		rc = model_new(&how, &k->before, k->err);
	if (rc)
		return rc;
	k->before->by_block = true;
	rc = restack_init(&k->restack, k->copy.stacks, k->copy.stack_count);
	if (rc)
		return tm_fail(k->err, rc, "no memory for the stacks of the trace");
	k->copy.restack = &k->restack;
	rc = gather(k);
	if (!rc)
		rc = write_begin(k);
	if (!rc)
		rc = copy_names(&k->copy);
	if (!rc)
		rc = resume_maps(k->before, write_map, k);
	if (!rc)
		rc = write_inherited(k);
	if (!rc)
		rc = write_part(k);
	return rc ? rc : write_end(k);
}

int trim_section(struct trace_reader *r, struct trace_writer *w, const struct trim_options *options,
		 struct trim_result *ret, struct tm_error *err)
{
	struct work k = {.r = r, .options = options, .err = err};
	*err = (struct tm_error){0};
	const struct trace_end *end;
	int rc = trace_reader_end(r, &end, err);
	if (!rc && end->culled_events)
		rc = tm_fail(err, -ENODATA,
			     "blocks that did not live long were culled (--cull): they are in the "
			     "figures of whole slices, and a part cannot be cut out of these");
	if (!rc)
		rc = trim(&k, w);
	cursor_done(&k.cursor);
	restack_done(&k.restack);
	inherited_done(&k.inherited);
	model_free(k.before);
	copy_done(&k.copy);
	if (!rc)
		*ret = k.done;
	else if (!err->code)
		tm_fail(err, rc, "the new trace cannot be written: %s", strerror(-rc));
	return rc;
}

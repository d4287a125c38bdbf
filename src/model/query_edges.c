/* SPDX-License-Identifier: Apache-2.0 */
#include "model/query_edges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/state.h"

/* A block that a failed realloc gives back. */
struct edge_return {
	uint32_t event;
	uint64_t block_id, size_bytes, held_ns;
	uint32_t stack_id;
};

struct edge_part {
	size_t index;
	uint64_t used;
	struct trace_event *events;
	uint8_t *known; /* per event: an end whose stack and size are known */
	size_t count;
	struct edge_return *returns; /* in order */
	size_t return_count;
};

/* What a thread did before, within a part. */
struct seen_thread {
	uint64_t last_block; /* block_id + 1 if allocating it was the last it did */
	uint32_t realloc;    /* event of its unfinished realloc, plus 1 */
	bool acted, realloc_seen;
};

void edges_init(struct edges *edges, struct query_section *section, struct tm_error *err)
{
	*edges = (struct edges){.section = section, .err = err};
	history_init(&edges->history, section->reader);
}

static struct edge_part *part_free(struct edges *edges, struct edge_part *part)
{
	if (part) {
		section_give_buffer(edges->section, part->events);
		tm_free(part->known);
		tm_free(part->returns);
	}
	return tm_free(part);
}

void edges_done(struct edges *edges)
{
	for (size_t i = 0; i < EDGE_PARTS; i++)
		edges->parts[i] = part_free(edges, edges->parts[i]);
	history_done(&edges->history);
}

static bool is_birth(const struct trace_event *event)
{
	return event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC;
}

static bool is_end(const struct trace_event *event)
{
	return event->op == TRACE_FREE || event->op == TRACE_REALLOC_FREE ||
	       event->op == TRACE_FREE_UNSEEN || event->op == TRACE_FREE_OLDER;
}

/* ---- ends of older blocks ---- */

/* From the ENDS of the file. 1: they are all known now; 0: it does not have them. */
static int take_ends(struct edges *edges, struct edge_part *part)
{
	const struct section_part *facts = &edges->section->parts[part->index];
	struct trace_ends_facts ends;
	if (trace_reader_ends_facts(edges->section->reader, part->index, &ends))
		return 0;
	struct trace_old_end *rows = tm_alloc_array(ends.count + 1, sizeof *rows);
	if (!rows)
		return -ENOMEM;
	int rc = trace_reader_ends(edges->section->reader, part->index, rows, edges->err);
	size_t next = 0;
	for (size_t i = 0; i < part->count && !rc; i++) {
		struct trace_event *event = &part->events[i];
		if (!is_end(event) || event->block_id >= facts->first_block_id)
			continue;
		if (next == ends.count || rows[next].block_id != event->block_id) {
			rc = -EBADMSG;
			break;
		}
		event->stack_id = rows[next].stack_id;
		event->size_bytes = rows[next].size_bytes;
		event->flags = rows[next].is_temporary ? TRACE_EVENT_TEMPORARY : 0;
		part->known[i] = true;
		next++;
	}
	tm_free(rows);
	if (rc == -EBADMSG)
		return 0;
	return rc ? rc : 1;
}

struct wanted {
	uint64_t block_id;
	size_t event;
};

static int compare_wanted(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;
	return (x->block_id > y->block_id) - (x->block_id < y->block_id);
}

/* Without ENDS: from the births, each older block of events once. */
static int look_up_births(struct edges *edges, struct edge_part *part)
{
	const struct section_part *facts = &edges->section->parts[part->index];
	struct wanted *wanted = tm_alloc_array(part->count + 1, sizeof *wanted);
	size_t count = 0;
	if (!wanted)
		return -ENOMEM;
	for (size_t i = 0; i < part->count; i++) {
		if (is_end(&part->events[i]) && part->events[i].block_id < facts->first_block_id)
			wanted[count++] = (struct wanted){part->events[i].block_id, i};
	}
	qsort(wanted, count, sizeof *wanted, compare_wanted);
	int rc = 0;
	for (size_t i = 0; i < count && !rc; i++) {
		const struct trace_event *birth;
		struct trace_event *event = &part->events[wanted[i].event];
		rc = history_birth(&edges->history, wanted[i].block_id, &birth, edges->err);
		if (rc || !birth)
			continue;
		event->stack_id = birth->stack_id;
		event->size_bytes = birth->size_bytes;
		part->known[wanted[i].event] = true;
	}
	tm_free(wanted);
	return rc;
}

/* ---- within the part ---- */

static int add_return(struct edge_part *part, const struct edge_return *back)
{
	void *returns = tm_grow_array(part->returns, part->return_count + 1, sizeof *part->returns);
	if (!returns)
		return -ENOMEM;
	part->returns = returns;
	part->returns[part->return_count++] = *back;
	return 0;
}

/* The realloc began before this part: rare, so it is looked for in older events. */
static int return_older(struct edges *edges, struct edge_part *part, uint32_t at,
			uint32_t thread_id)
{
	const struct trace_event *last, *birth;
	uint64_t first = edges->section->parts[part->index].first_event;
	int rc = history_last_realloc(&edges->history, thread_id, first, &last, edges->err);
	if (rc || !last || last->op != TRACE_REALLOC_FREE || last->block_id == TRACE_NO_BLOCK)
		return rc;
	struct edge_return back = {
		.event = at, .block_id = last->block_id, .held_ns = last->time_ns};
	rc = history_birth(&edges->history, back.block_id, &birth, edges->err);
	if (rc || !birth)
		return rc;
	back.size_bytes = birth->size_bytes;
	back.stack_id = birth->stack_id;
	return add_return(part, &back);
}

static int resolve_undo(struct edges *edges, struct edge_part *part, uint32_t at,
			struct seen_thread *thread)
{
	uint32_t begin = thread->realloc;
	bool here = thread->realloc_seen;
	thread->realloc = 0;
	thread->realloc_seen = true;
	if (!here)
		return return_older(edges, part, at, part->events[at].thread_id);
	if (!begin || !part->known[begin - 1])
		return 0;
	const struct trace_event *ended = &part->events[begin - 1];
	struct edge_return back = {.event = at,
				   .block_id = ended->block_id,
				   .size_bytes = ended->size_bytes,
				   .held_ns = ended->time_ns,
				   .stack_id = ended->stack_id};
	return add_return(part, &back);
}

/* Whether the first thing this thread does here ends what it allocated last, before. */
static int resolve_old_temporary(struct edges *edges, struct edge_part *part,
				 struct trace_event *event)
{
	bool idle = false;
	uint64_t first = edges->section->parts[part->index].first_event;
	int rc = history_idle_since_birth(&edges->history, event->block_id, event->thread_id, first,
					  &idle, edges->err);
	idle &= !trace_word_sampled(event->size_bytes);
	event->flags = idle ? TRACE_EVENT_TEMPORARY : 0;
	return rc;
}

static int resolve_end(struct edges *edges, struct edge_part *part, uint32_t at,
		       struct seen_thread *thread, bool ends_known)
{
	struct trace_event *event = &part->events[at];
	bool local = event->block_id != TRACE_NO_BLOCK &&
		     event->block_id >= edges->section->parts[part->index].first_block_id;
	int rc = 0;
	if (local) {
		part->known[at] = true;
		event->flags = event->op == TRACE_FREE &&
					       thread->last_block == event->block_id + 1 &&
					       !(event->flags & TRACE_EVENT_LASTING) &&
					       !trace_word_sampled(event->size_bytes)
				       ? TRACE_EVENT_TEMPORARY
				       : 0;
	} else if (!ends_known && part->known[at]) {
		event->flags = 0;
		if (event->op == TRACE_FREE && !thread->acted)
			rc = resolve_old_temporary(edges, part, event);
	}
	if (event->op == TRACE_FREE_UNSEEN && event->block_id != TRACE_NO_BLOCK)
		return rc; /* made by the collector: nothing that the thread did */
	thread->acted = true;
	thread->last_block = 0;
	if (event->op == TRACE_REALLOC_FREE) {
		thread->realloc = part->known[at] ? at + 1 : 0;
		thread->realloc_seen = true;
	}
	return rc;
}

static int resolve_events(struct edges *edges, struct edge_part *part, bool ends_known)
{
	size_t threads = edges->section->thread_count;
	struct seen_thread *seen = tm_alloc_array(threads + 1, sizeof *seen);
	int rc = seen ? 0 : -ENOMEM;
	for (uint32_t i = 0; i < part->count && !rc; i++) {
		const struct trace_event *event = &part->events[i];
		struct seen_thread *thread =
			&seen[event->thread_id < threads ? event->thread_id : threads];
		if (is_birth(event)) {
			thread->acted = true;
			thread->last_block = event->block_id + 1;
			if (event->op == TRACE_REALLOC_ALLOC) {
				thread->realloc = 0;
				thread->realloc_seen = true;
			}
		} else if (is_end(event)) {
			rc = resolve_end(edges, part, i, thread, ends_known);
		} else if (event->op == TRACE_REALLOC_UNDO) {
			thread->acted = true;
			thread->last_block = 0;
			rc = resolve_undo(edges, part, i, thread);
		}
	}
	tm_free(seen);
	return rc;
}

/* ---- parts ---- */

static int part_load(struct edges *edges, size_t index, struct edge_part *part)
{
	const struct section_part *facts = &edges->section->parts[index];
	part->index = index;
	part->count = facts->event_count;
	if (part->count > SECTION_BUFFER_EVENTS)
		return -EBADMSG; /* more than a block can have */
	part->events = section_take_buffer(edges->section);
	part->known = tm_alloc_array(part->count + 1, 1);
	if (!part->events || !part->known)
		return -ENOMEM;
	int rc = trace_reader_plain_events(edges->section->reader, index, part->events, edges->err);
	if (rc)
		return rc;
	edges->blocks_read++;
	int ends = take_ends(edges, part);
	if (ends < 0)
		return ends;
	rc = ends ? 0 : look_up_births(edges, part);
	return rc ? rc : resolve_events(edges, part, ends == 1);
}

/* NULL with *ret_error 0: it is damaged. */
static const struct edge_part *part_at(struct edges *edges, size_t index, int *ret_error)
{
	size_t oldest = 0;
	*ret_error = 0;
	for (size_t i = 0; i < EDGE_PARTS; i++) {
		struct edge_part *part = edges->parts[i];
		if (part && part->index == index) {
			part->used = ++edges->uses;
			return part;
		}
		if (!part || (edges->parts[oldest] && part->used < edges->parts[oldest]->used))
			oldest = i;
	}
	edges->parts[oldest] = part_free(edges, edges->parts[oldest]);
	struct edge_part *part = tm_alloc(sizeof *part);
	int rc = part ? part_load(edges, index, part) : -ENOMEM;
	if (rc) {
		part_free(edges, part);
		if (rc == -EBADMSG)
			edges->unread_events += edges->section->parts[index].event_count;
		else
			*ret_error = rc;
		return NULL;
	}
	part->used = ++edges->uses;
	return edges->parts[oldest] = part;
}

int edges_events(struct edges *edges, size_t index, const struct trace_event **ret)
{
	int rc;
	const struct edge_part *part = part_at(edges, index, &rc);
	*ret = part ? part->events : NULL;
	return rc;
}

/* ---- visiting ---- */

/* From where each event is looked at, and what it tells. */
struct visit {
	edge_fn fn;
	void *ctx;
	uint64_t first, end, last_ns;
};

static void tell(const struct visit *visit, const struct edge_part *part, size_t at,
		 uint64_t ordinal, const struct edge_return *back)
{
	const struct trace_event *event = &part->events[at];
	struct edge_event edge = {
		.ordinal = ordinal,
		.time_ns = visit->last_ns,
		.block_id = event->block_id,
		.size_bytes = trace_word_size(event->size_bytes),
		.weight = trace_weigh(event->size_bytes, event->block_id),
		.stack_id = event->stack_id,
		.is_temporary = event->flags & TRACE_EVENT_TEMPORARY,
	};
	if (is_birth(event)) {
		edge.kind = EDGE_BIRTH;
		visit->fn(visit->ctx, &edge);
	} else if (is_end(event)) {
		edge.kind = EDGE_END;
		if (part->known[at])
			visit->fn(visit->ctx, &edge);
	} else {
		edge.kind = EDGE_FAILED;
		visit->fn(visit->ctx, &edge);
	}
	if (!back)
		return;
	edge.kind = EDGE_RETURN;
	edge.block_id = back->block_id;
	edge.size_bytes = trace_word_size(back->size_bytes);
	edge.weight = trace_weigh(back->size_bytes, back->block_id);
	edge.stack_id = back->stack_id;
	edge.held_ns = back->held_ns;
	visit->fn(visit->ctx, &edge);
}

static void visit_part(struct visit *visit, const struct edge_part *part, uint64_t first_event,
		       uint64_t start_ns)
{
	size_t next = 0;
	visit->last_ns = start_ns;
	for (size_t i = 0; i < part->count && first_event + i < visit->end; i++) {
		if (part->events[i].time_ns > visit->last_ns)
			visit->last_ns = part->events[i].time_ns;
		const struct edge_return *back = NULL;
		if (next < part->return_count && part->returns[next].event == i)
			back = &part->returns[next++];
		if (first_event + i >= visit->first)
			tell(visit, part, i, first_event + i, back);
	}
}

int edges_visit(struct edges *edges, uint64_t first, uint64_t end, edge_fn fn, void *ctx)
{
	const struct query_section *s = edges->section;
	struct visit visit = {.fn = fn, .ctx = ctx, .first = first, .end = end};
	if (first >= end)
		return 0;
	uint64_t next = first; /* events between parts are not in the file */
	for (size_t i = range_part_of_event(s, first);
	     i < s->part_count && s->parts[i].first_event < end; i++) {
		int rc;
		if (s->parts[i].first_event > next)
			edges->unread_events += s->parts[i].first_event - next;
		next = s->parts[i].first_event + s->parts[i].event_count;
		const struct edge_part *part = part_at(edges, i, &rc);
		if (rc)
			return rc;
		if (part)
			visit_part(&visit, part, s->parts[i].first_event, s->parts[i].start_ns);
	}
	edges->unread_events += end > next ? end - next : 0;
	return 0;
}

/* ---- lifetimes ---- */

static size_t part_of_block(const struct query_section *s, uint64_t block_id)
{
	size_t low = 0, high = s->part_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (s->parts[middle].first_block_id > block_id)
			high = middle;
		else
			low = middle + 1;
	}
	return low ? low - 1 : 0;
}

int edges_life_bucket(struct edges *edges, uint64_t block_id, uint64_t end_ns, uint32_t *ret_bucket)
{
	const struct query_section *s = edges->section;
	size_t index = part_of_block(s, block_id);
	if (index >= s->part_count || block_id < s->parts[0].first_block_id)
		return -ENOENT;
	uint64_t start_ns = s->parts[index].start_ns, last_ns = s->parts[index].end_ns;
	uint32_t longest = model_bucket(end_ns > start_ns ? (end_ns - start_ns) / 1000 : 0);
	uint32_t shortest = model_bucket(end_ns > last_ns ? (end_ns - last_ns) / 1000 : 0);
	*ret_bucket = longest;
	if (longest == shortest)
		return 0;
	const struct trace_event *birth;
	int rc = history_birth(&edges->history, block_id, &birth, edges->err);
	if (rc)
		return rc;
	if (!birth)
		return -ENOENT;
	*ret_bucket = model_bucket(end_ns > birth->time_ns ? (end_ns - birth->time_ns) / 1000 : 0);
	return 0;
}

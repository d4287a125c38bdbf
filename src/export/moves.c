/* SPDX-License-Identifier: Apache-2.0 */
#include "export/moves.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "model/event_scan.h"
#include "model/history.h"

/* What a thread's last REALLOC_FREE ended. */
struct held {
	uint64_t block_id, size_bytes;
	uint32_t stack_id;
	bool is_told;
};

struct moves {
	const struct export_input *input;
	struct trace_reader *reader;
	move_fn fn;
	void *ctx;
	struct tm_error *err;
	uint64_t first_block_id; /* born in the range; UINT64_MAX: none yet */
	uint64_t total_events;
	struct held *held; /* by thread */
	size_t held_room;
	struct history history; /* for ends that the file does not describe */
	struct trace_old_end *ends;
	size_t ends_room;
	/* with a filter that looks at single blocks: a bit per block that was chosen at its birth
	 */
	bool by_block;
	uint64_t *chosen;
	size_t chosen_words;
};

static int tell(struct moves *m, enum move_kind kind, const struct trace_event *event)
{
	struct trace_weight weight = trace_weigh(event->size_bytes, event->block_id);
	const struct move move = {
		.kind = kind,
		.time_ns = event->time_ns,
		.block_id = event->block_id,
		.count = weight.count,
		.size_bytes = weight.bytes,
		.stack_id = event->stack_id,
		.thread_id = event->thread_id,
	};
	return m->fn(m->ctx, &move);
}

static bool is_in_range(const struct moves *m, const struct trace_event *event)
{
	return event->time_ns >= m->input->from_ns && event->time_ns <= m->input->to_ns;
}

/* ---- what is chosen ---- */

static bool by_stack(const struct moves *m, uint32_t stack_id)
{
	return !m->input->filter || filter_stack(m->input->filter, stack_id) == FILTER_YES;
}

static int set_bit(struct moves *m, uint64_t block_id)
{
	size_t word = (size_t)((block_id - m->first_block_id) / 64);
	if (word >= m->chosen_words) {
		size_t words = word + word / 2 + 1024;
		uint64_t *grown = tm_grow_array(m->chosen, words, sizeof *grown);
		if (!grown)
			return -ENOMEM;
		memset(grown + m->chosen_words, 0, (words - m->chosen_words) * sizeof *grown);
		m->chosen = grown;
		m->chosen_words = words;
	}
	m->chosen[word] |= 1ull << ((block_id - m->first_block_id) % 64);
	return 0;
}

static bool has_bit(const struct moves *m, uint64_t block_id)
{
	size_t word = (size_t)((block_id - m->first_block_id) / 64);
	return word < m->chosen_words &&
	       m->chosen[word] >> ((block_id - m->first_block_id) % 64) & 1;
}

/* At its birth; filters that look at more are not for formats that tell a history. */
static int choose(struct moves *m, const struct trace_event *event, bool *ret_chosen)
{
	*ret_chosen = by_stack(m, event->stack_id);
	if (!m->by_block)
		return 0;
	const struct filter_block facts = {
		.stack_id = event->stack_id,
		.thread_id = event->thread_id,
		.api = event->api,
		.size_bytes = trace_word_size(event->size_bytes),
		.address = event->address,
		.birth_ns = event->time_ns,
		.now_ns = m->input->to_ns,
	};
	enum filter_verdict verdict = filter_stack(m->input->filter, event->stack_id);
	if (verdict == FILTER_DEPENDS)
		verdict = filter_block(m->input->filter, &facts);
	*ret_chosen = verdict != FILTER_NO;
	return *ret_chosen ? set_bit(m, event->block_id) : 0;
}

static bool was_chosen(const struct moves *m, const struct trace_event *event)
{
	return m->by_block ? has_bit(m, event->block_id) : by_stack(m, event->stack_id);
}

/* ---- from events, and what the file says of ends ---- */

static int hold(struct moves *m, const struct trace_event *event, bool is_told)
{
	if (event->thread_id >= m->held_room) {
		size_t room = (size_t)event->thread_id * 2 + 64;
		struct held *grown = tm_alloc_array(room, sizeof *grown);
		if (!grown)
			return -ENOMEM;
		for (size_t i = 0; i < m->held_room; i++)
			grown[i] = m->held[i];
		tm_free(m->held);
		m->held = grown;
		m->held_room = room;
	}
	m->held[event->thread_id] = (struct held){
		.block_id = event->block_id,
		.size_bytes = event->size_bytes,
		.stack_id = event->stack_id,
		.is_told = is_told,
	};
	return 0;
}

static int begin(struct moves *m, const struct trace_event *event)
{
	if (!is_in_range(m, event))
		return 0;
	if (m->first_block_id == UINT64_MAX)
		m->first_block_id = event->block_id;
	bool chosen;
	int code = choose(m, event, &chosen);
	return code || !chosen ? code : tell(m, MOVE_BEGIN, event);
}

static int end(struct moves *m, const struct trace_event *event)
{
	bool is_told = is_in_range(m, event) && event->block_id >= m->first_block_id &&
		       was_chosen(m, event);
	int code = is_told ? tell(m, MOVE_END, event) : 0;
	if (!code && event->op == TRACE_REALLOC_FREE)
		code = hold(m, event, is_told);
	return code;
}

static int undo(struct moves *m, const struct trace_event *event)
{
	struct held *held = event->thread_id < m->held_room ? &m->held[event->thread_id] : NULL;
	if (!held || !held->is_told || !is_in_range(m, event))
		return 0;
	struct trace_event back = *event;
	back.block_id = held->block_id;
	back.size_bytes = held->size_bytes;
	back.stack_id = held->stack_id;
	held->is_told = false;
	return tell(m, MOVE_RETURN, &back);
}

/* Rows about the ends of older blocks; *ret_known false: the file has none for this block. */
static int read_ends(struct moves *m, size_t index, size_t *ret_count, bool *ret_known)
{
	struct trace_ends_facts facts;
	*ret_known = !trace_reader_ends_facts(m->reader, index, &facts);
	*ret_count = 0;
	if (!*ret_known)
		return 0;
	if (facts.count > m->ends_room) {
		m->ends_room = 0;
		tm_free(m->ends);
		m->ends = tm_alloc_array(facts.count, sizeof *m->ends);
		if (!m->ends)
			return -ENOMEM;
		m->ends_room = facts.count;
	}
	int code = trace_reader_ends(m->reader, index, m->ends, m->err);
	*ret_known = !code;
	*ret_count = code ? 0 : facts.count;
	return code == -EBADMSG || code == -ENODATA ? 0 : code;
}

/* Stack and size of a block that is older than the block of events. False: not known. */
static int find_birth(struct moves *m, struct trace_event *event, bool *ret_known)
{
	const struct trace_event *birth = NULL;
	int code = history_birth(&m->history, event->block_id, &birth, m->err);
	*ret_known = !code && birth;
	if (*ret_known) {
		event->size_bytes = birth->size_bytes;
		event->stack_id = birth->stack_id;
	}
	return code;
}

static bool is_end(const struct trace_event *event)
{
	return (event->op == TRACE_FREE || event->op == TRACE_REALLOC_FREE ||
		event->op == TRACE_FREE_UNSEEN) &&
	       event->block_id != TRACE_NO_BLOCK;
}

static int tell_progress(const struct moves *m, uint64_t done)
{
	const struct query_progress *progress = &m->input->progress;
	return progress->fn ? progress->fn(progress->ctx, done, m->total_events) : 0;
}

static int look_at(void *ctx, size_t index, const struct trace_event_block *facts,
		   struct trace_event *events)
{
	struct moves *m = ctx;
	size_t count, next = 0;
	bool known, ok = true;
	int code = read_ends(m, index, &count, &known);
	for (size_t i = 0; !code && i < facts->event_count; i++) {
		struct trace_event *event = &events[i];
		if (event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC) {
			code = begin(m, event);
		} else if (is_end(event)) {
			ok = true;
			if (event->block_id < facts->first_block_id && next < count &&
			    m->ends[next].block_id == event->block_id) {
				event->size_bytes = m->ends[next].size_bytes;
				event->stack_id = m->ends[next++].stack_id;
			} else if (event->block_id < facts->first_block_id) {
				code = find_birth(m, event, &ok);
			}
			if (!code && ok)
				code = end(m, event);
		} else if (event->op == TRACE_REALLOC_UNDO) {
			code = undo(m, event);
		}
	}
	return code ? code : tell_progress(m, facts->first_event + facts->event_count);
}

/* Blocks of events outside the range hold nothing that is told. */
static void find_blocks(const struct moves *m, size_t *ret_first, size_t *ret_end)
{
	size_t count = trace_reader_event_block_count(m->reader), first = 0, end = 0;
	struct trace_event_block facts;
	for (size_t i = 0; i < count; i++) {
		if (trace_reader_event_block(m->reader, i, &facts))
			continue;
		if (facts.end_ns < m->input->from_ns)
			first = i + 1;
		if (facts.start_ns <= m->input->to_ns)
			end = i + 1;
	}
	*ret_first = first < end ? first : end;
	*ret_end = end;
}

int moves_run(const struct export_input *input, move_fn fn, void *ctx, struct tm_error *err)
{
	struct moves m = {
		.input = input,
		.reader = query_reader(input->section),
		.fn = fn,
		.ctx = ctx,
		.err = err,
		.first_block_id = UINT64_MAX,
		.by_block = input->filter && filter_needs_blocks(input->filter),
	};
	struct event_scan_counts counts = {0};
	struct model_totals totals;
	struct event_scan scan = {
		.reader = m.reader,
		.addresses = m.by_block && filter_needs_addresses(input->filter),
		.fn = look_at,
		.ctx = &m,
	};
	if (input->facts->meta->unknown & TRACE_UNKNOWN_EVENTS)
		return tm_fail(err, -ENODATA,
			       "this format tells events, and the file has sums alone: use pprof, "
			       "collapsed, callgrind or another that does not");
	if (input->facts->end->folded_events)
		return tm_fail(err, -ENODATA,
			       "this format tells events, and older ones were folded (--retain): "
			       "use pprof, collapsed, callgrind or another that does not");
	if (input->facts->end->culled_events)
		return tm_fail(err, -ENODATA,
			       "this format tells events, and those of short-lived blocks were "
			       "culled (--cull): use pprof, collapsed, callgrind or another that "
			       "does not");
	model_totals(query_model(input->section), &totals);
	m.total_events = totals.events;
	history_init(&m.history, m.reader);
	find_blocks(&m, &scan.first, &scan.end);
	int code = event_scan_run(&scan, &counts, err);
	history_done(&m.history);
	tm_free(m.held);
	tm_free(m.ends);
	tm_free(m.chosen);
	return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "query_reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEVER UINT64_MAX

struct qref_run *qref_new(void)
{
	struct qref_run *run = calloc(1, sizeof *run);
	run->events = calloc(QREF_EVENTS, sizeof *run->events);
	run->blocks = calloc(QREF_EVENTS, sizeof *run->blocks);
	return run;
}

void qref_free(struct qref_run *run)
{
	free(run->events);
	free(run->blocks);
	free(run);
}

/* ---- the run as a list of blocks ---- */

static bool is_birth(const struct trace_event *event)
{
	return event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC;
}

static bool is_end(const struct trace_event *event)
{
	return event->op == TRACE_FREE || event->op == TRACE_REALLOC_FREE ||
	       event->op == TRACE_FREE_UNSEEN || event->op == TRACE_FREE_OLDER;
}

/* The next thing this thread does with the heap after event `at`, or NEVER. */
static uint64_t next_act(const struct qref_run *run, uint64_t at)
{
	for (uint64_t i = at + 1; i < run->event_count; i++) {
		const struct trace_event *event = &run->events[i];
		bool made_up = event->op == TRACE_FREE_UNSEEN && event->block_id != TRACE_NO_BLOCK;
		if (event->thread_id == run->events[at].thread_id &&
		    event->op != TRACE_ALLOC_FAIL && !made_up)
			return i;
	}
	return NEVER;
}

/* The block that this thread's last unfinished realloc ended before event `at`, or NEVER. */
static uint64_t held_block(const struct qref_run *run, uint64_t at, uint64_t *ret_from)
{
	for (uint64_t i = at; i-- > 0;) {
		const struct trace_event *event = &run->events[i];
		if (event->thread_id != run->events[at].thread_id)
			continue;
		if (event->op == TRACE_REALLOC_ALLOC || event->op == TRACE_REALLOC_UNDO)
			return NEVER;
		if (event->op == TRACE_REALLOC_FREE) {
			*ret_from = i;
			return event->block_id;
		}
	}
	return NEVER;
}

static void add_birth(struct qref_run *run, const struct trace_event *event, uint64_t at)
{
	run->blocks[event->block_id] = (struct qref_block){
		.size_bytes = event->size_bytes,
		.address = event->address,
		.birth = at,
		.birth_us = event->time_ns / 1000,
		.end = NEVER,
		.stack_id = event->stack_id,
		.thread_id = event->thread_id,
		.free_thread_id = UINT32_MAX,
		.api = event->api,
	};
	run->block_count++;
}

static void add_end(struct qref_run *run, const struct trace_event *event, uint64_t at)
{
	struct qref_block *block = &run->blocks[event->block_id];
	block->end = at;
	block->end_us = event->time_ns / 1000;
	block->free_thread_id = event->thread_id;
	block->unseen = event->op == TRACE_FREE_UNSEEN;
	block->temporary = event->op == TRACE_FREE && block->thread_id == event->thread_id &&
			   next_act(run, block->birth) == at;
}

static void add_return(struct qref_run *run, uint64_t at)
{
	uint64_t from = 0, id = held_block(run, at, &from);
	if (id == NEVER)
		return;
	struct qref_block *block = &run->blocks[id];
	block->end = NEVER;
	block->free_thread_id = UINT32_MAX;
	block->temporary = block->unseen = false;
	block->away[block->away_count].from = from;
	block->away[block->away_count].to = at;
	block->away[block->away_count].thread_id = run->events[at].thread_id;
	block->away[block->away_count++].from_us = run->events[from].time_ns / 1000;
}

void qref_add(struct qref_run *run, const struct trace_event *event)
{
	uint64_t at = run->event_count++;
	run->events[at] = *event;
	run->duration_us = event->time_ns / 1000;
	if (is_birth(event))
		add_birth(run, event, at);
	else if (is_end(event) && event->block_id != TRACE_NO_BLOCK)
		add_end(run, event, at);
	else if (event->op == TRACE_REALLOC_UNDO)
		add_return(run, at);
}

/* ---- filters ---- */

unsigned qref_function_of(uint32_t stack_id)
{
	return stack_id * 7 % 11;
}

unsigned qref_file_of(uint32_t stack_id)
{
	return stack_id % 5;
}

unsigned qref_module_of(uint32_t stack_id)
{
	return stack_id % 3;
}

bool qref_is_allocator(uint32_t stack_id)
{
	return stack_id % 4 == 1;
}

uint32_t qref_parent_of(uint32_t stack_id)
{
	return stack_id / 3;
}

void qref_filter_text(const struct qref_filter *filter, char *out)
{
	static const char *const names[] = {
		[QREF_FUNCTION] = "function=f%u", [QREF_SITE] = "site:/^f%u$/",
		[QREF_FILE] = "file:*d%u.c",      [QREF_MODULE] = "module=lib%u.so",
		[QREF_THREAD] = "thread=t%u",     [QREF_TEMPORARY] = "temporary",
		[QREF_UNFREED] = "unfreed",       [QREF_FOREIGN] = "foreign"};
	static const char *const ranges[] = {[QREF_SIZE] = "size",
					     [QREF_LIFETIME] = "lifetime",
					     [QREF_AGE] = "age",
					     [QREF_TIME] = "time",
					     [QREF_ADDRESS] = "address"};
	static const char *const apis[] = {"malloc", "calloc", "realloc", "aligned", "new"};
	char all[1024] = "", term[160], joined[1024];
	for (size_t i = 0; i < filter->count; i++) {
		const struct qref_term *t = &filter->terms[i];
		const char *unit = t->what == QREF_SIZE || t->what == QREF_ADDRESS ? "" : "us";
		if (t->what == QREF_API)
			snprintf(term, sizeof term, "api=%s", apis[t->number]);
		else if (t->what < QREF_SIZE || t->what > QREF_API)
			snprintf(term, sizeof term, names[t->what], (unsigned)t->number);
		else if (t->high == NEVER)
			snprintf(term, sizeof term, "%s>=%llu%s", ranges[t->what],
				 (unsigned long long)t->low, unit);
		else
			snprintf(term, sizeof term, "%s=%llu%s..%llu%s", ranges[t->what],
				 (unsigned long long)t->low, unit, (unsigned long long)t->high,
				 unit);
		const char *join = i == 0 ? "" : t->is_or ? ") or " : ") and ";
		if (snprintf(joined, sizeof joined, "%s%s%s%s%s", i ? "(" : "", all, join,
			     t->negated ? "not " : "", term) >= (int)sizeof joined)
			break; /* filters are far shorter */
		memcpy(all, joined, sizeof all);
	}
	memcpy(out, all, strlen(all) + 1);
}

static bool in_stack(uint32_t stack_id, enum qref_what what, unsigned number)
{
	for (; stack_id; stack_id = qref_parent_of(stack_id)) {
		unsigned name = what == QREF_FUNCTION ? qref_function_of(stack_id)
				: what == QREF_FILE   ? qref_file_of(stack_id)
						      : qref_module_of(stack_id);
		if (name == number)
			return true;
	}
	return false;
}

static bool is_site(uint32_t stack_id, unsigned number)
{
	while (stack_id && qref_is_allocator(stack_id))
		stack_id = qref_parent_of(stack_id);
	return stack_id && qref_function_of(stack_id) == number;
}

static bool within(const struct qref_term *term, uint64_t value)
{
	return value >= term->low && value <= term->high;
}

struct judged { /* a block, or a call that failed */
	const struct qref_block *block;
	bool failure;
	uint64_t to_us, end, duration_us;
};

static bool term_holds(const struct qref_term *term, const struct judged *j)
{
	const struct qref_block *b = j->block;
	bool ended = b->end != NEVER;
	switch (term->what) {
	case QREF_FUNCTION:
	case QREF_FILE:
	case QREF_MODULE:
		return in_stack(b->stack_id, term->what, (unsigned)term->number);
	case QREF_SITE:
		return is_site(b->stack_id, (unsigned)term->number);
	case QREF_THREAD:
		return b->thread_id == term->number;
	case QREF_SIZE:
		return within(term, b->size_bytes);
	case QREF_LIFETIME:
		if (j->failure)
			return false;
		if (ended)
			return within(term, b->end_us - b->birth_us);
		return term->high == NEVER && j->duration_us - b->birth_us >= term->low;
	case QREF_AGE:
		return !j->failure && qref_lives_at(b, j->end) &&
		       within(term, j->to_us - b->birth_us);
	case QREF_TIME:
		return within(term, b->birth_us);
	case QREF_ADDRESS:
		return !j->failure && b->address && b->address <= term->high &&
		       b->address + (b->size_bytes > 1 ? b->size_bytes - 1 : 0) >= term->low;
	case QREF_API:
		return b->api == term->number;
	case QREF_TEMPORARY:
		return !j->failure && b->temporary;
	case QREF_UNFREED:
		return !j->failure && !ended;
	case QREF_FOREIGN:
		return !j->failure && ended && !b->unseen && b->free_thread_id != b->thread_id;
	case QREF_WHAT_COUNT:
		break;
	}
	return false;
}

static bool holds(const struct qref_filter *filter, const struct judged *j)
{
	bool result = true;
	for (size_t i = 0; i < filter->count; i++) {
		const struct qref_term *term = &filter->terms[i];
		bool here = term_holds(term, j) != term->negated;
		if (i == 0)
			result = here;
		else
			result = term->is_or ? result || here : result && here;
	}
	return result;
}

bool qref_chooses(const struct qref_run *run, const struct qref_filter *filter,
		  const struct qref_block *block, uint64_t to_us, uint64_t end)
{
	struct judged j = {
		.block = block, .to_us = to_us, .end = end, .duration_us = run->duration_us};
	return holds(filter, &j);
}

/* ---- answers ---- */

/* After all events before `ordinal`. */
bool qref_lives_at(const struct qref_block *block, uint64_t ordinal)
{
	if (block->birth >= ordinal || block->end < ordinal)
		return false;
	for (unsigned i = 0; i < block->away_count; i++) {
		if (block->away[i].from < ordinal && ordinal <= block->away[i].to)
			return false;
	}
	return true;
}

static unsigned bucket_of(uint64_t value)
{
	unsigned bucket = 0;
	for (; value; value /= 2)
		bucket++;
	return bucket < TRACE_BUCKETS ? bucket : TRACE_BUCKETS - 1;
}

static bool in(const struct qref_answer *a, uint64_t ordinal)
{
	return ordinal >= a->first && ordinal < a->end;
}

/* Ends in the range less those that a failed realloc takes back in it, by lifetime. */
static void add_ends(struct qref_answer *a, const struct qref_block *b)
{
	int64_t ends = 0;
	if (in(a, b->end)) {
		ends++;
		a->lives[b->stack_id][bucket_of(b->end_us - b->birth_us)]++;
	}
	for (unsigned i = 0; i < b->away_count; i++) {
		int64_t here = in(a, b->away[i].from) - in(a, b->away[i].to);
		ends += here;
		a->lives[b->stack_id][bucket_of(b->away[i].from_us - b->birth_us)] += here;
	}
	a->frees[b->stack_id] += ends;
	a->freed_bytes[b->stack_id] += ends * (int64_t)b->size_bytes;
}

static void add_freer(struct qref_answer *a, const struct qref_block *b, uint32_t thread_id,
		      int count)
{
	struct qref_thread *freer = &a->threads[thread_id];
	freer->frees += count;
	freer->freed_bytes += count * (int64_t)b->size_bytes;
	freer->foreign += thread_id != b->thread_id ? count : 0;
}

static void add_threads(struct qref_answer *a, const struct qref_block *b)
{
	struct qref_thread *by = &a->threads[b->thread_id];
	by->allocations += in(a, b->birth);
	by->allocated_bytes += in(a, b->birth) ? b->size_bytes : 0;
	by->end_blocks += qref_lives_at(b, a->end);
	by->end_bytes += qref_lives_at(b, a->end) ? b->size_bytes : 0;
	if (in(a, b->end) && !b->unseen) {
		add_freer(a, b, b->free_thread_id, 1);
		a->threads[b->free_thread_id].temporary += b->temporary;
	}
	for (unsigned i = 0; i < b->away_count; i++)
		add_freer(a, b, b->away[i].thread_id,
			  in(a, b->away[i].from) - in(a, b->away[i].to));
}

static void add_block(struct qref_answer *a, const struct qref_block *b, uint64_t peak)
{
	struct qref_figures *f = &a->stacks[b->stack_id];
	if (in(a, b->birth)) {
		f->allocations++;
		f->allocated_bytes += b->size_bytes;
		a->sizes[b->stack_id][bucket_of(b->size_bytes)]++;
		if (qref_lives_at(b, a->end)) {
			f->kept_blocks++;
			f->kept_bytes += b->size_bytes;
		}
	}
	f->temporary += in(a, b->end) && b->temporary;
	if (qref_lives_at(b, a->first)) {
		f->start_blocks++;
		f->start_bytes += b->size_bytes;
	}
	if (qref_lives_at(b, a->end)) {
		f->end_blocks++;
		f->end_bytes += b->size_bytes;
	}
	if (qref_lives_at(b, peak)) {
		f->peak_blocks++;
		f->peak_bytes += b->size_bytes;
	}
	add_ends(a, b);
	add_threads(a, b);
}

/* The ordinal at which the whole heap is largest in the range, the first of such moments. */
static uint64_t find_peak(const struct qref_run *run, struct qref_answer *a, uint64_t from_us)
{
	int64_t bytes = 0, blocks = 0, best = -1;
	uint64_t peak = a->first;
	for (uint64_t i = 0; i <= a->end; i++) {
		/* bytes: after all events before i */
		if (i >= a->first && bytes > best) {
			best = bytes;
			peak = i;
			a->peak_blocks = (uint64_t)blocks;
			a->peak_us = i == a->first ? from_us : run->events[i - 1].time_ns / 1000;
		}
		if (i == a->end)
			break;
		const struct trace_event *event = &run->events[i];
		uint64_t from, id = event->block_id;
		int sign = is_birth(event) ? 1 : is_end(event) && id != TRACE_NO_BLOCK ? -1 : 0;
		if (event->op == TRACE_REALLOC_UNDO) {
			id = held_block(run, i, &from);
			sign = id != NEVER;
		}
		if (sign) {
			bytes += sign * (int64_t)run->blocks[id].size_bytes;
			blocks += sign;
		}
	}
	a->peak_bytes = (uint64_t)best;
	return peak;
}

static void add_failures(const struct qref_run *run, const struct qref_filter *filter,
			 uint64_t to_us, struct qref_answer *a)
{
	for (uint64_t i = a->first; i < a->end; i++) {
		const struct trace_event *event = &run->events[i];
		if (event->op != TRACE_ALLOC_FAIL && event->op != TRACE_REALLOC_UNDO)
			continue;
		struct qref_block call = {.size_bytes = event->size_bytes,
					  .birth_us = event->time_ns / 1000,
					  .stack_id = event->stack_id,
					  .thread_id = event->thread_id,
					  .api = event->api};
		struct judged j = {.block = &call, .failure = true, .to_us = to_us, .end = a->end};
		a->stacks[event->stack_id].failed += holds(filter, &j);
	}
}

static void add_up(struct qref_answer *a)
{
	int64_t frees = 0, freed_bytes = 0;
	enum { FIGURES = sizeof a->totals / sizeof(uint64_t) };
	uint64_t sums[FIGURES] = {0}, more[FIGURES];
	for (size_t s = 0; s < QREF_STACKS; s++) {
		struct qref_figures *f = &a->stacks[s];
		memcpy(more, f, sizeof more);
		for (size_t i = 0; i < FIGURES; i++)
			sums[i] += more[i];
		f->frees = a->frees[s] > 0 ? (uint64_t)a->frees[s] : 0;
		f->freed_bytes = a->freed_bytes[s] > 0 ? (uint64_t)a->freed_bytes[s] : 0;
		frees += a->frees[s];
		freed_bytes += a->freed_bytes[s];
	}
	for (size_t t = 0; t < QREF_THREADS; t++) {
		struct qref_thread *thread = &a->threads[t];
		thread->frees = thread->frees > 0 ? thread->frees : 0;
		thread->freed_bytes = thread->freed_bytes > 0 ? thread->freed_bytes : 0;
		thread->foreign = thread->foreign > 0 ? thread->foreign : 0;
	}
	memcpy(&a->totals, sums, sizeof sums);
	a->totals.frees = frees > 0 ? (uint64_t)frees : 0;
	a->totals.freed_bytes = freed_bytes > 0 ? (uint64_t)freed_bytes : 0;
}

void qref_ask(const struct qref_run *run, uint64_t from_us, uint64_t to_us,
	      const struct qref_filter *filter, struct qref_answer *ret)
{
	memset(ret, 0, sizeof *ret);
	while (ret->first < run->event_count && run->events[ret->first].time_ns / 1000 < from_us)
		ret->first++;
	ret->end = ret->first;
	while (ret->end < run->event_count && run->events[ret->end].time_ns / 1000 <= to_us)
		ret->end++;
	uint64_t peak = find_peak(run, ret, from_us);
	for (uint64_t i = 0; i < run->block_count; i++) {
		if (qref_chooses(run, filter, &run->blocks[i], to_us, ret->end))
			add_block(ret, &run->blocks[i], peak);
	}
	add_failures(run, filter, to_us, ret);
	add_up(ret);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sums cannot tell of whole slices: blocks born in the range that end in
 * it, and the buckets. Slices tell ends by the slice of birth; the blocks that
 * were born in L, a part of a slice, are told apart by their numbers, which the
 * ENDS of the events have.
 */
#include <errno.h>
#include <pthread.h>

#include "base/memory.h"
#include "model/event_scan.h"
#include "model/query_fast.h"

enum { SLICES_PER_THREAD = 4 };

/* ---- slices ---- */

/* Some of the whole slices; several threads can have one each. */
struct slices_pass {
	struct fast *fast;
	size_t first, end;
	bool all;       /* a failed realloc may hide an end: no slice can be passed over */
	bool *has_left; /* per slice: something ends in it that was born in the slice of L */
};

static int add_row_buckets(struct fast *fast, const struct trace_slice_row *row)
{
	int rc = 0;
	for (unsigned i = 0; fast->query->want & QUERY_SIZES && i < row->size_bucket_count && !rc;
	     i++)
		rc = buckets_add(&fast->sizes, row->stack_id, row->sizes[i].bucket,
				 row->sizes[i].count);
	for (unsigned i = 0; fast->query->want & QUERY_LIVES && i < row->life_bucket_count && !rc;
	     i++)
		rc = buckets_add(&fast->lives, row->stack_id, row->lives[i].bucket,
				 row->lives[i].count);
	return rc;
}

static int add_slice(void *ctx, const struct trace_slice *slice)
{
	struct slices_pass *pass = ctx;
	struct fast *fast = pass->fast;
	for (uint32_t i = 0; i < slice->row_count; i++) {
		const struct trace_slice_row *row = &slice->rows[i];
		struct query_figures *f = fast_row(fast, row->stack_id);
		if (!f)
			continue;
		for (uint32_t k = row->death_count; k-- > 0;) {
			const struct trace_death *death = &row->deaths[k];
			if (death->birth_slice < fast->first_slice) {
				pass->has_left[slice->slice_id - pass->first] |=
					death->birth_slice + 1 == fast->first_slice;
				break;
			}
			f->kept_blocks -= death->count;
			f->kept_bytes -= death->bytes;
		}
		int rc = add_row_buckets(fast, row);
		if (rc)
			return rc;
	}
	return fast->error;
}

/* ---- ends of what was born in L ---- */

static void take_out(struct fast *fast, uint32_t stack_id, uint64_t size_bytes, bool back)
{
	struct query_figures *f = fast_row(fast, stack_id);
	if (!f)
		return;
	f->kept_blocks += back ? 1 : UINT64_MAX;
	f->kept_bytes += back ? size_bytes : -size_bytes;
}

static bool is_left(const struct fast *fast, uint64_t block_id)
{
	return block_id >= fast->range->first_block && block_id < fast->left_end_block;
}

static void visit_ends(void *ctx, const struct edge_event *event)
{
	struct fast *fast = ctx;
	if ((event->kind == EDGE_END || event->kind == EDGE_RETURN) &&
	    is_left(fast, event->block_id))
		take_out(fast, event->stack_id, event->size_bytes, event->kind == EDGE_RETURN);
}

/* A part that lies in whole slices with all its events. */
static int add_part_ends(struct fast *fast, size_t index, const struct trace_ends_facts *facts)
{
	if (facts->count == 0 || facts->lowest_block_id >= fast->left_end_block ||
	    facts->highest_block_id < fast->range->first_block)
		return 0;
	struct trace_old_end *rows = tm_alloc_array(facts->count, sizeof *rows);
	int rc = rows ? trace_reader_ends(fast->section->reader, index, rows, fast->err) : -ENOMEM;
	for (size_t i = 0; i < facts->count && !rc; i++) {
		if (is_left(fast, rows[i].block_id))
			take_out(fast, rows[i].stack_id, rows[i].size_bytes, false);
	}
	tm_free(rows);
	return rc;
}

/* Parts at the ends, without ENDS, or with failed reallocs are looked at event by event. */
static int add_left_part(struct fast *fast, size_t index, uint64_t first, uint64_t end)
{
	const struct section_part *part = &fast->section->parts[index];
	struct trace_ends_facts facts;
	uint64_t part_end = part->first_event + part->event_count;
	bool whole = part->first_event >= first && part_end <= end;
	int rc = -ENODATA;
	if (whole && !trace_reader_ends_facts(fast->section->reader, index, &facts) &&
	    !facts.undone)
		rc = add_part_ends(fast, index, &facts);
	if (rc != -ENODATA && rc != -EBADMSG)
		return rc;
	return edges_visit(fast->edges, part->first_event > first ? part->first_event : first,
			   part_end < end ? part_end : end, visit_ends, fast);
}

static bool any_undone(const struct fast *fast)
{
	const struct query_section *s = fast->section;
	size_t end = range_part_of_event(s, fast->right);
	if (end < s->part_count)
		end++;
	for (size_t i = range_part_of_event(s, fast->left_end); i < end; i++) {
		struct trace_ends_facts facts;
		if (trace_reader_ends_facts(s->reader, i, &facts) || facts.undone)
			return true;
	}
	return false;
}

static int add_left_ends(struct slices_pass *pass)
{
	struct fast *fast = pass->fast;
	const struct query_section *s = fast->section;
	int rc = 0;
	for (size_t slice = pass->first; slice < pass->end && !rc; slice++) {
		uint64_t first = fast_boundary(s, slice), end = fast_boundary(s, slice + 1);
		if (!pass->all && !pass->has_left[slice - pass->first])
			continue;
		for (size_t i = range_part_of_event(s, first);
		     i < s->part_count && s->parts[i].first_event < end && !rc; i++)
			rc = add_left_part(fast, i, first, end);
		if (!rc)
			rc = query_tell_progress(&fast->query->progress, first, s->stored_events,
						 fast->err);
	}
	return rc ? rc : fast->error;
}

static int run_pass(struct slices_pass *pass)
{
	struct fast *fast = pass->fast;
	struct trace_reader *reader = fast->section->reader;
	bool buckets = fast->query->want & (QUERY_SIZES | QUERY_LIVES);
	pass->has_left = tm_alloc_array(pass->end - pass->first + 1, sizeof *pass->has_left);
	int rc = pass->has_left ? 0 : -ENOMEM;
	for (size_t i = pass->first; i < pass->end && !rc; i++) {
		rc = buckets ? trace_reader_slice(reader, i, add_slice, pass, fast->err)
			     : trace_reader_plain_slice(reader, i, add_slice, pass, fast->err);
		if (!rc)
			rc = query_tell_progress(&fast->query->progress,
						 fast_boundary(fast->section, i),
						 fast->section->stored_events, fast->err);
	}
	if (!rc && fast->query->want & QUERY_KEPT &&
	    fast->left_end_block > fast->range->first_block)
		rc = add_left_ends(pass);
	tm_free(pass->has_left);
	return rc;
}

/* ---- threads ---- */

/* A thread's own share of the answer, added to the whole in the end. */
struct helper {
	pthread_t thread;
	bool started;
	struct slices_pass pass;
	struct fast fast;
	struct query query;
	struct edges edges;
	struct tm_error err;
	int rc;
};

static void *help(void *ctx)
{
	struct helper *helper = ctx;
	helper->rc = run_pass(&helper->pass);
	return NULL;
}

static int helper_start(struct helper *helper, const struct slices_pass *all, size_t first,
			size_t end)
{
	const struct fast *whole = all->fast;
	helper->query = *whole->query;
	helper->query.progress = (struct query_progress){0}; /* the asking thread's business */
	helper->fast = *whole;
	helper->fast.query = &helper->query;
	helper->fast.edges = &helper->edges;
	helper->fast.err = &helper->err;
	helper->fast.sizes = helper->fast.lives = (struct bucket_set){0};
	edges_init(&helper->edges, whole->section, &helper->err);
	helper->pass = (struct slices_pass){
		.fast = &helper->fast, .first = first, .end = end, .all = all->all};
	if (rows_init(&helper->fast.rows, whole->section->stack_count))
		return -ENOMEM;
	helper->started = !pthread_create(&helper->thread, NULL, help, helper);
	if (!helper->started) /* then it is done by this thread */
		help(helper);
	return 0;
}

static int helper_join(struct helper *helper, struct fast *whole)
{
	if (helper->started)
		pthread_join(helper->thread, NULL);
	int rc = helper->rc;
	if (rc && helper->err.code)
		tm_fail(whole->err, rc, "%s", helper->err.text);
	for (size_t i = 0; i < helper->fast.rows.count && !rc; i++) {
		const struct query_row *row = &helper->fast.rows.rows[i];
		struct query_figures *f = rows_at(&whole->rows, row->stack_id);
		rc = f ? 0 : -ENOMEM;
		if (f) {
			f->kept_blocks += row->figures.kept_blocks;
			f->kept_bytes += row->figures.kept_bytes;
		}
	}
	if (!rc)
		rc = buckets_merge(&whole->sizes, &helper->fast.sizes);
	if (!rc)
		rc = buckets_merge(&whole->lives, &helper->fast.lives);
	whole->edges->blocks_read += helper->edges.blocks_read;
	whole->edges->unread_events += helper->edges.unread_events;
	rows_done(&helper->fast.rows);
	buckets_done(&helper->fast.sizes);
	buckets_done(&helper->fast.lives);
	edges_done(&helper->edges);
	return rc;
}

int fast_add_kept(struct fast *fast)
{
	size_t count = fast->end_slice - fast->first_slice;
	size_t threads = event_scan_threads(fast->section->threads);
	struct slices_pass all = {
		.fast = fast, .first = fast->first_slice, .all = any_undone(fast)};
	if (threads > count / SLICES_PER_THREAD)
		threads = count / SLICES_PER_THREAD;
	size_t helpers = threads > 1 ? threads - 1 : 0, started = 0;
	struct helper *helper = tm_alloc_array(helpers + 1, sizeof *helper);
	int rc = helper ? 0 : -ENOMEM;
	for (; started < helpers && !rc; started++)
		rc = helper_start(&helper[started], &all,
				  fast->first_slice + count * (started + 1) / threads,
				  fast->first_slice + count * (started + 2) / threads);
	all.end = fast->first_slice + (helpers ? count / threads : count);
	if (!rc)
		rc = run_pass(&all);
	for (size_t i = 0; i < started; i++) {
		int joined = helper_join(&helper[i], fast);
		rc = rc ? rc : joined;
	}
	tm_free(helper);
	return rc;
}

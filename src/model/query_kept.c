/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sums cannot tell of whole slices: blocks born in the range that end in
 * it, and the buckets. Slices tell ends by the slice of birth; the blocks that
 * were born in L, a part of a slice, are told apart by their numbers, which the
 * ENDS of the events have.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/memory.h"
#include "model/event_scan.h"
#include "model/query_fast.h"

enum { SLICES_PER_THREAD = 4 };

/* ---- slices ---- */

/* One whole slice that a thread looks at. */
struct slice_look {
	struct fast *fast; /* the thread's own */
	bool has_left;     /* something ends in it that was born in the slice of L */
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
	struct slice_look *look = ctx;
	struct fast *fast = look->fast;
	for (uint32_t i = 0; i < slice->row_count; i++) {
		const struct trace_slice_row *row = &slice->rows[i];
		struct query_figures *f = fast_row(fast, row->stack_id);
		if (!f)
			continue;
		for (uint32_t k = row->death_count; k-- > 0;) {
			const struct trace_death *death = &row->deaths[k];
			if (death->birth_slice < fast->first_slice) {
				look->has_left |= death->birth_slice + 1 == fast->first_slice;
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

/* The same where no buckets are wanted. */
static int add_ends(void *ctx, const struct trace_ends_row *row)
{
	struct slice_look *look = ctx;
	struct query_figures *f = fast_row(look->fast, row->stack_id);
	if (!f)
		return look->fast->error;
	look->has_left |= row->from_before;
	f->kept_blocks -= row->count;
	f->kept_bytes -= row->bytes;
	return 0;
}

/* ---- ends of what was born in L ---- */

static void take_out(struct fast *fast, uint32_t stack_id, struct trace_weight weight, bool back)
{
	struct query_figures *f = fast_row(fast, stack_id);
	if (!f)
		return;
	f->kept_blocks += back ? weight.count : -weight.count;
	f->kept_bytes += back ? weight.bytes : -weight.bytes;
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
		take_out(fast, event->stack_id, event->weight, event->kind == EDGE_RETURN);
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
			take_out(fast, rows[i].stack_id,
				 trace_weigh(rows[i].size_bytes, rows[i].block_id), false);
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

static int add_left_ends(struct fast *fast, size_t slice)
{
	const struct query_section *s = fast->section;
	uint64_t first = fast_boundary(s, slice), end = fast_boundary(s, slice + 1);
	int rc = 0;
	for (size_t i = range_part_of_event(s, first);
	     i < s->part_count && s->parts[i].first_event < end && !rc; i++)
		rc = add_left_part(fast, i, first, end);
	return rc ? rc : fast->error;
}

static int look_at_slice(struct fast *fast, size_t slice, bool all)
{
	struct trace_reader *reader = fast->section->reader;
	struct slice_look look = {.fast = fast};
	bool buckets = fast->query->want & (QUERY_SIZES | QUERY_LIVES);
	int rc = buckets ? trace_reader_slice(reader, slice, add_slice, &look, fast->err)
			 : trace_reader_slice_ends(reader, slice, (uint32_t)fast->first_slice,
						   add_ends, &look, fast->err);
	if (!rc)
		rc = fast->error;
	if (!rc && fast->query->want & QUERY_KEPT &&
	    fast->left_end_block > fast->range->first_block && (all || look.has_left))
		rc = add_left_ends(fast, slice);
	if (!rc)
		rc = query_tell_progress(&fast->query->progress,
					 fast_boundary(fast->section, slice),
					 fast->section->stored_events, fast->err);
	return rc;
}

/* ---- threads ---- */

/* A thread's own share of the answer, added to the whole in the end. */
struct helper {
	struct fast_kept *kept;
	pthread_t thread;
	bool started;
	struct fast fast;
	struct query query;
	struct edges edges;
	struct tm_error err;
	int rc;
};

struct fast_kept {
	bool all;            /* a failed realloc may hide an end: no slice can be passed over */
	_Atomic size_t next; /* slice that a thread takes next */
	size_t end;
	struct helper helpers[EVENT_SCAN_THREADS_MAX];
	size_t helper_count;
};

static int work(struct fast_kept *kept, struct fast *fast)
{
	int rc = 0;
	size_t slice;
	while (!rc && (slice = atomic_fetch_add(&kept->next, 1)) < kept->end)
		rc = look_at_slice(fast, slice, kept->all);
	if (rc)
		atomic_store(&kept->next, kept->end);
	return rc;
}

static void *help(void *ctx)
{
	struct helper *helper = ctx;
	helper->rc = work(helper->kept, &helper->fast);
	return NULL;
}

static bool helper_start(struct fast_kept *kept, const struct fast *whole)
{
	struct helper *helper = &kept->helpers[kept->helper_count];
	helper->kept = kept;
	helper->query = *whole->query;
	helper->query.progress = (struct query_progress){0}; /* the asking thread's business */
	helper->fast = *whole;
	helper->fast.query = &helper->query;
	helper->fast.edges = &helper->edges;
	helper->fast.err = &helper->err;
	edges_init(&helper->edges, whole->section, &helper->err);
	if (rows_init(&helper->fast.rows, whole->section->stack_count))
		return false;
	helper->started = !pthread_create(&helper->thread, NULL, help, helper);
	if (!helper->started)
		rows_done(&helper->fast.rows);
	return helper->started;
}

static int helper_join(struct helper *helper, struct fast *whole)
{
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

int fast_kept_start(struct fast *fast, struct fast_kept **ret_kept)
{
	size_t count = fast->end_slice - fast->first_slice;
	size_t threads = event_scan_threads(fast->section->threads);
	struct fast_kept *kept = tm_alloc(sizeof *kept);
	if (!kept)
		return -ENOMEM;
	kept->all = any_undone(fast);
	kept->end = fast->end_slice;
	atomic_init(&kept->next, fast->first_slice);
	if (threads > count / SLICES_PER_THREAD + 1)
		threads = count / SLICES_PER_THREAD + 1;
	while (kept->helper_count + 1 < threads && helper_start(kept, fast))
		kept->helper_count++;
	*ret_kept = kept;
	return 0;
}

int fast_kept_finish(struct fast *fast, struct fast_kept *kept, int rc)
{
	if (rc) /* the answer is not wanted any more */
		atomic_store(&kept->next, kept->end);
	else
		rc = work(kept, fast);
	for (size_t i = 0; i < kept->helper_count; i++) {
		int joined = helper_join(&kept->helpers[i], fast);
		rc = rc ? rc : joined;
	}
	tm_free(kept);
	return rc;
}

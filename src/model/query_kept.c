/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sums cannot tell of whole slices: blocks born in the range that end in
 * it, and the buckets. Slices tell ends by the slice of birth; the blocks that
 * were born in L, a part of a slice, are told apart by their numbers, which the
 * ENDS of the events have.
 */
#include <errno.h>

#include "base/memory.h"
#include "model/query_fast.h"

/* ---- slices ---- */

struct slices_pass {
	struct fast *fast;
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
				pass->has_left[slice->slice_id - fast->first_slice] |=
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

/* A failed realloc may hide an end in the cells: then no slice can be passed over. */
static bool any_undone(const struct fast *fast, size_t first, size_t end)
{
	for (size_t i = first; i < end; i++) {
		struct trace_ends_facts facts;
		if (trace_reader_ends_facts(fast->section->reader, i, &facts) || facts.undone)
			return true;
	}
	return false;
}

static int add_left_ends(struct fast *fast, const bool *has_left)
{
	const struct query_section *s = fast->section;
	size_t first_part = range_part_of_event(s, fast->left_end);
	size_t end_part = range_part_of_event(s, fast->right);
	if (end_part < s->part_count)
		end_part++;
	bool all = any_undone(fast, first_part, end_part);
	int rc = 0;
	for (size_t slice = fast->first_slice; slice < fast->end_slice && !rc; slice++) {
		uint64_t first = fast_boundary(s, slice), end = fast_boundary(s, slice + 1);
		if (!all && !has_left[slice - fast->first_slice])
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

int fast_add_kept(struct fast *fast)
{
	size_t count = fast->end_slice - fast->first_slice;
	struct slices_pass pass = {.fast = fast,
				   .has_left = tm_alloc_array(count + 1, sizeof(bool))};
	if (!pass.has_left)
		return -ENOMEM;
	int rc = 0;
	bool buckets = fast->query->want & (QUERY_SIZES | QUERY_LIVES);
	struct trace_reader *reader = fast->section->reader;
	for (size_t i = fast->first_slice; i < fast->end_slice && !rc; i++) {
		rc = buckets ? trace_reader_slice(reader, i, add_slice, &pass, fast->err)
			     : trace_reader_plain_slice(reader, i, add_slice, &pass, fast->err);
		if (!rc)
			rc = query_tell_progress(&fast->query->progress,
						 fast_boundary(fast->section, i),
						 fast->section->stored_events, fast->err);
	}
	if (!rc && fast->query->want & QUERY_KEPT &&
	    fast->left_end_block > fast->range->first_block)
		rc = add_left_ends(fast, pass.has_left);
	tm_free(pass.has_left);
	return rc;
}

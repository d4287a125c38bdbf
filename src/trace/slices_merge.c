/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/slices_merge.h"

#include "base/memory.h"
#include "trace/slices.h"

#include <errno.h>

/* What is being put together; arrays have room for all of both. */
struct merge {
	const struct trace_slice *a, *b;
	bool a_rose, b_rose; /* the peak rose in it */
	slices_last_fn last_of;
	const void *ctx;
	struct trace_slice_row *rows;
	struct trace_death *deaths;
	struct trace_bucket *buckets;
	struct trace_culled_thread *threads;
	size_t row_count, death_count, bucket_count;
	uint32_t thread_count;
};

static void merge_facts(const struct trace_slice *a, const struct trace_slice *b,
			struct trace_slice *ret)
{
	struct trace_slice both = *b; /* numbers at the end, and those of the section so far */
	both.start_ns = a->start_ns;
	both.first_event = a->first_event;
	both.event_count = b->first_event + b->event_count - a->first_event;
	/* One without events says nothing of its own. */
	if (a->event_count && (!b->event_count || a->min_live_bytes < b->min_live_bytes))
		both.min_live_bytes = a->min_live_bytes;
	if (a->event_count && (!b->event_count || a->max_live_bytes >= b->max_live_bytes)) {
		both.max_live_bytes = a->max_live_bytes;
		both.max_live_time_ns = a->max_live_time_ns;
	}
	both.births += a->births;
	both.birth_bytes += a->birth_bytes;
	both.deaths += a->deaths;
	both.death_bytes += a->death_bytes;
	both.temporary += a->temporary;
	if (!b->culled_events)
		both.culled_events = a->culled_events;
	both.rows = NULL;
	both.row_count = both.culled_thread_count = 0;
	both.culled_threads = NULL;
	*ret = both;
}

static bool rose(const struct trace_slice *slice)
{
	for (uint32_t i = 0; i < slice->row_count; i++)
		if (slice->rows[i].peak_known)
			return true;
	return false;
}

/* ---- a row ---- */

static void add_death(struct merge *m, size_t first, const struct trace_death *death)
{
	uint32_t birth = m->last_of(m->ctx, death->birth_slice);
	struct trace_death *last = m->death_count > first ? &m->deaths[m->death_count - 1] : NULL;
	if (birth > m->b->slice_id)
		birth = m->b->slice_id;
	if (!last || last->birth_slice != birth) {
		last = &m->deaths[m->death_count++];
		*last = (struct trace_death){.birth_slice = birth};
	}
	last->count += death->count;
	last->bytes += death->bytes;
}

static void merge_deaths(struct merge *m, const struct trace_slice_row *a,
			 const struct trace_slice_row *b, struct trace_slice_row *out)
{
	size_t first = m->death_count;
	for (uint32_t i = 0, j = 0; i < a->death_count || j < b->death_count;) {
		bool of_a = j == b->death_count ||
			    (i < a->death_count &&
			     a->deaths[i].birth_slice <= b->deaths[j].birth_slice);
		add_death(m, first, of_a ? &a->deaths[i++] : &b->deaths[j++]);
	}
	out->deaths = &m->deaths[first];
	out->death_count = (uint32_t)(m->death_count - first);
}

/* The number of buckets put behind those that are there. */
static uint16_t merge_buckets(struct merge *m, const struct trace_bucket *a, unsigned a_count,
			      const struct trace_bucket *b, unsigned b_count,
			      const struct trace_bucket **ret)
{
	size_t first = m->bucket_count;
	for (unsigned i = 0, j = 0; i < a_count || j < b_count;) {
		bool of_a = j == b_count || (i < a_count && a[i].bucket <= b[j].bucket);
		bool of_b = i == a_count || (j < b_count && b[j].bucket <= a[i].bucket);
		m->buckets[m->bucket_count++] = (struct trace_bucket){
			.bucket = of_a ? a[i].bucket : b[j].bucket,
			.count = (of_a ? a[i].count : 0) + (of_b ? b[j].count : 0),
		};
		i += of_a;
		j += of_b;
	}
	*ret = &m->buckets[first];
	return (uint16_t)(m->bucket_count - first);
}

/* Said as it is, or as the difference to what the stack had live before both (see records.h). */
static void merge_peak(const struct merge *m, const struct trace_slice_row *a,
		       const struct trace_slice_row *b, struct trace_slice_row *out)
{
	const struct trace_slice_row *of = m->b_rose ? b : a;
	if (!m->a_rose && !m->b_rose)
		return;
	out->peak_known = of->peak_known;
	out->peak_count = of->peak_count;
	out->peak_bytes = of->peak_bytes;
	if (!m->b_rose || b->peak_known)
		return;
	out->peak_count += a->births;
	out->peak_bytes += a->birth_bytes;
	for (uint32_t i = 0; i < a->death_count; i++) {
		out->peak_count -= a->deaths[i].count;
		out->peak_bytes -= a->deaths[i].bytes;
	}
}

static void merge_row(struct merge *m, const struct trace_slice_row *a,
		      const struct trace_slice_row *b, uint32_t stack_id)
{
	struct trace_slice_row *out = &m->rows[m->row_count++];
	*out = (struct trace_slice_row){
		.stack_id = stack_id,
		.births = a->births + b->births,
		.birth_bytes = a->birth_bytes + b->birth_bytes,
		.temporary = a->temporary + b->temporary,
		.failed = a->failed + b->failed,
	};
	merge_deaths(m, a, b, out);
	out->size_bucket_count = merge_buckets(m, a->sizes, a->size_bucket_count, b->sizes,
					       b->size_bucket_count, &out->sizes);
	out->life_bucket_count = merge_buckets(m, a->lives, a->life_bucket_count, b->lives,
					       b->life_bucket_count, &out->lives);
	merge_peak(m, a, b, out);
}

static void merge_rows(struct merge *m)
{
	static const struct trace_slice_row none;
	const struct trace_slice *a = m->a, *b = m->b;
	for (uint32_t i = 0, j = 0; i < a->row_count || j < b->row_count;) {
		bool of_a = j == b->row_count ||
			    (i < a->row_count && a->rows[i].stack_id <= b->rows[j].stack_id);
		bool of_b = i == a->row_count ||
			    (j < b->row_count && b->rows[j].stack_id <= a->rows[i].stack_id);
		merge_row(m, of_a ? &a->rows[i] : &none, of_b ? &b->rows[j] : &none,
			  of_a ? a->rows[i].stack_id : b->rows[j].stack_id);
		i += of_a;
		j += of_b;
	}
}

/* ---- the whole ---- */

static void add_thread(struct merge *m, const struct trace_culled_thread *thread)
{
	struct trace_culled_thread *last =
		m->thread_count ? &m->threads[m->thread_count - 1] : NULL;
	if (!last || last->thread_id != thread->thread_id) {
		m->threads[m->thread_count++] = *thread;
		return;
	}
	last->births += thread->births;
	last->birth_bytes += thread->birth_bytes;
	last->ends += thread->ends;
	last->end_bytes += thread->end_bytes;
	last->foreign_ends += thread->foreign_ends;
	last->temporary += thread->temporary;
}

static void merge_threads(struct merge *m)
{
	const struct trace_slice *a = m->a, *b = m->b;
	for (uint32_t i = 0, j = 0; i < a->culled_thread_count || j < b->culled_thread_count;) {
		bool of_a = j == b->culled_thread_count ||
			    (i < a->culled_thread_count &&
			     a->culled_threads[i].thread_id <= b->culled_threads[j].thread_id);
		add_thread(m, of_a ? &a->culled_threads[i++] : &b->culled_threads[j++]);
	}
}

static void count_entries(const struct trace_slice *slice, size_t *deaths, size_t *buckets)
{
	for (uint32_t i = 0; i < slice->row_count; i++) {
		const struct trace_slice_row *row = &slice->rows[i];
		*deaths += row->death_count;
		*buckets += (size_t)row->size_bucket_count + row->life_bucket_count;
	}
}

static bool allocate(struct merge *m)
{
	size_t deaths = 1, buckets = 1;
	count_entries(m->a, &deaths, &buckets);
	count_entries(m->b, &deaths, &buckets);
	m->rows = tm_alloc_array((size_t)m->a->row_count + m->b->row_count + 1, sizeof *m->rows);
	m->deaths = tm_alloc_array(deaths, sizeof *m->deaths);
	m->buckets = tm_alloc_array(buckets, sizeof *m->buckets);
	m->threads =
		tm_alloc_array((size_t)m->a->culled_thread_count + m->b->culled_thread_count + 1,
			       sizeof *m->threads);
	return m->rows && m->deaths && m->buckets && m->threads;
}

int slices_merge(const struct trace_slice *a, const struct trace_slice *b, slices_last_fn last_of,
		 const void *ctx, struct bytes *out)
{
	struct merge m = {.a = a,
			  .b = b,
			  .a_rose = rose(a),
			  .b_rose = rose(b),
			  .last_of = last_of,
			  .ctx = ctx};
	bool room = allocate(&m);
	if (room) {
		struct trace_slice both;
		merge_facts(a, b, &both);
		merge_rows(&m);
		merge_threads(&m);
		both.rows = m.rows;
		both.row_count = (uint32_t)m.row_count;
		both.culled_threads = m.threads;
		both.culled_thread_count = m.thread_count;
		slices_put(out, &both);
	}
	tm_free(m.rows);
	tm_free(m.deaths);
	tm_free(m.buckets);
	tm_free(m.threads);
	return room && !out->failed ? 0 : -ENOMEM;
}

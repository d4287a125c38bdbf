/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slice as columns: rows of one slice resemble each other column by column,
 * so that packing finds more.
 */
#include "trace/slices.h"

#include "base/memory.h"
#include "trace/container.h"
#include "trace/decode.h"
#include "trace/format.h"

enum slice_column {
	SLICE_FACTS, /* the slice's own numbers */
	SLICE_STACK, /* step from the stack before */
	SLICE_BIRTHS,
	SLICE_BIRTH_BYTES,
	SLICE_TEMPORARY,
	SLICE_FAILED,
	SLICE_DEATH_COUNT, /* entries of a row in the next three */
	SLICE_DEATH_AGE,   /* slices between birth and death; from the second entry on: step down */
	SLICE_DEATHS,
	SLICE_DEATH_BYTES,  /* signed difference to the number of deaths times the mean birth */
	SLICE_SIZE_BUCKETS, /* entries, then step from bucket to bucket */
	SLICE_SIZE_COUNTS,
	SLICE_LIFE_BUCKETS,
	SLICE_LIFE_COUNTS,
	SLICE_PEAK,       /* 0 unknown; else blocks + 1, then bytes */
	SLICE_CULLED,     /* only where blocks are culled: events so far, threads, a row for each */
	SLICE_PEAK_MOVED, /* only of merged slices: signed, of rows whose share is 0 in SLICE_PEAK
			   */
	SLICE_COLUMNS,
};

void slices_put_facts(struct bytes *out, const struct trace_slice *slice)
{
	const uint64_t facts[] = {
		slice->slice_id,         slice->start_ns,       slice->end_ns,
		slice->first_event,      slice->event_count,    slice->live_bytes,
		slice->live_blocks,      slice->min_live_bytes, slice->max_live_bytes,
		slice->max_live_time_ns, slice->births,         slice->birth_bytes,
		slice->deaths,           slice->death_bytes,    slice->temporary,
		slice->mapped_bytes,     slice->peak_bytes,     slice->peak_blocks,
		slice->peak_time_ns,     slice->freed_unseen,   slice->freed_older,
		slice->rss_time_ns,      slice->rss_heap_bytes, slice->row_count,
	};
	for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
		bytes_put_varint(out, facts[i]);
}

static void put_buckets(struct bytes *buckets, struct bytes *counts,
			const struct trace_bucket *bucket, unsigned count)
{
	uint32_t last = 0;
	bytes_put_varint(buckets, count);
	for (unsigned i = 0; i < count; i++) {
		bytes_put_varint(buckets, bucket[i].bucket - last);
		bytes_put_varint(counts, bucket[i].count);
		last = bucket[i].bucket;
	}
}

/* Most stacks ask for one size: what dies has the mean size of what is born. */
static uint64_t mean_bytes(const struct trace_slice_row *row)
{
	return row->births > 0 ? row->birth_bytes / row->births : 0;
}

static void put_deaths(struct bytes *columns, uint32_t slice_id, const struct trace_slice_row *row)
{
	bytes_put_varint(&columns[SLICE_DEATH_COUNT], row->death_count);
	uint32_t last = slice_id;
	uint64_t mean = mean_bytes(row);
	for (uint32_t i = row->death_count; i-- > 0;) {
		const struct trace_death *death = &row->deaths[i];
		bytes_put_varint(&columns[SLICE_DEATH_AGE], last - death->birth_slice);
		bytes_put_varint(&columns[SLICE_DEATHS], death->count);
		bytes_put_signed(&columns[SLICE_DEATH_BYTES],
				 (int64_t)(death->bytes - mean * death->count)); /* may wrap */
		last = death->birth_slice;
	}
}

static void put_row(struct bytes *columns, const struct trace_slice *slice,
		    const struct trace_slice_row *row, uint32_t last_stack)
{
	bytes_put_varint(&columns[SLICE_STACK], row->stack_id - last_stack);
	bytes_put_varint(&columns[SLICE_BIRTHS], row->births);
	bytes_put_varint(&columns[SLICE_BIRTH_BYTES], row->birth_bytes);
	bytes_put_varint(&columns[SLICE_TEMPORARY], row->temporary);
	bytes_put_varint(&columns[SLICE_FAILED], row->failed);
	put_deaths(columns, slice->slice_id, row);
	put_buckets(&columns[SLICE_SIZE_BUCKETS], &columns[SLICE_SIZE_COUNTS], row->sizes,
		    row->size_bucket_count);
	put_buckets(&columns[SLICE_LIFE_BUCKETS], &columns[SLICE_LIFE_COUNTS], row->lives,
		    row->life_bucket_count);
	if (!row->peak_known) {
		bytes_put_varint(&columns[SLICE_PEAK], 0);
		return;
	}
	bytes_put_varint(&columns[SLICE_PEAK], row->peak_count + 1);
	bytes_put_varint(&columns[SLICE_PEAK], row->peak_bytes);
}

static void put_culled(struct bytes *column, const struct trace_slice *slice)
{
	uint32_t last = 0;
	bytes_put_varint(column, slice->culled_events);
	bytes_put_varint(column, slice->culled_thread_count);
	for (uint32_t i = 0; i < slice->culled_thread_count; i++) {
		const struct trace_culled_thread *thread = &slice->culled_threads[i];
		bytes_put_varint(column, thread->thread_id - last);
		bytes_put_varint(column, thread->births);
		bytes_put_varint(column, thread->birth_bytes);
		bytes_put_varint(column, thread->ends);
		bytes_put_varint(column, thread->end_bytes);
		bytes_put_varint(column, thread->foreign_ends);
		bytes_put_varint(column, thread->temporary);
		last = thread->thread_id;
	}
}

static void put_moved(struct bytes *column, const struct trace_slice *slice)
{
	for (uint32_t i = 0; i < slice->row_count; i++) {
		if (slice->rows[i].peak_known)
			continue;
		bytes_put_signed(column, (int64_t)slice->rows[i].peak_count);
		bytes_put_signed(column, (int64_t)slice->rows[i].peak_bytes);
	}
}

/* Columns at the end that say nothing are left out. */
static size_t column_count(const struct trace_slice *slice)
{
	for (uint32_t i = 0; i < slice->row_count; i++) {
		const struct trace_slice_row *row = &slice->rows[i];
		if (!row->peak_known && (row->peak_count || row->peak_bytes))
			return SLICE_COLUMNS;
	}
	return slice->culled_events ? SLICE_PEAK_MOVED : SLICE_CULLED;
}

void slices_put(struct bytes *out, const struct trace_slice *slice)
{
	struct bytes columns[SLICE_COLUMNS] = {0};
	size_t count = column_count(slice);
	slices_put_facts(&columns[SLICE_FACTS], slice);
	uint32_t last_stack = 0;
	for (uint32_t i = 0; i < slice->row_count; i++) {
		put_row(columns, slice, &slice->rows[i], last_stack);
		last_stack = slice->rows[i].stack_id;
	}
	if (slice->culled_events)
		put_culled(&columns[SLICE_CULLED], slice);
	if (count == SLICE_COLUMNS)
		put_moved(&columns[SLICE_PEAK_MOVED], slice);
	struct span spans[SLICE_COLUMNS];
	for (int i = 0; i < SLICE_COLUMNS; i++) {
		spans[i] = span_of(columns[i].data, columns[i].used);
		out->failed |= columns[i].failed;
	}
	container_put(out, spans, count);
	for (int i = 0; i < SLICE_COLUMNS; i++)
		bytes_done(&columns[i]);
}

void slices_get_facts(struct span *in, struct trace_slice *slice)
{
	uint64_t *const facts[] = {
		&slice->start_ns,       &slice->end_ns,         &slice->first_event,
		&slice->event_count,    &slice->live_bytes,     &slice->live_blocks,
		&slice->min_live_bytes, &slice->max_live_bytes, &slice->max_live_time_ns,
		&slice->births,         &slice->birth_bytes,    &slice->deaths,
		&slice->death_bytes,    &slice->temporary,      &slice->mapped_bytes,
		&slice->peak_bytes,     &slice->peak_blocks,    &slice->peak_time_ns,
		&slice->freed_unseen,   &slice->freed_older,    &slice->rss_time_ns,
		&slice->rss_heap_bytes,
	};
	slice->slice_id = span_u32(in);
	for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
		*facts[i] = span_varint(in);
	slice->row_count = span_u32(in);
}

/* Entries are never more than bytes: a hostile count cannot ask for much memory. */
static const char *allocate(struct slices_reader *r, const struct span *columns)
{
	slices_done(r);
	if (r->slice.row_count > span_left(&columns[SLICE_STACK]))
		return "it has more rows than it can have";
	r->rows = tm_alloc_array(r->slice.row_count + 1, sizeof *r->rows);
	r->deaths = tm_alloc_array(span_left(&columns[SLICE_DEATHS]) + 1, sizeof *r->deaths);
	r->sizes = tm_alloc_array(span_left(&columns[SLICE_SIZE_COUNTS]) + 1, sizeof *r->sizes);
	r->lives = tm_alloc_array(span_left(&columns[SLICE_LIFE_COUNTS]) + 1, sizeof *r->lives);
	return r->rows && r->deaths && r->sizes && r->lives ? NULL : decode_no_memory;
}

static bool get_deaths(struct span *columns, uint32_t slice_id, struct trace_slice_row *row,
		       struct trace_death *out)
{
	uint64_t count = span_varint(&columns[SLICE_DEATH_COUNT]);
	if (count > span_left(&columns[SLICE_DEATHS]))
		return false;
	row->deaths = out;
	row->death_count = (uint32_t)count;
	uint64_t birth = slice_id, mean = mean_bytes(row);
	for (uint64_t i = count; i-- > 0;) {
		uint64_t step = span_varint(&columns[SLICE_DEATH_AGE]);
		if (step > birth || (step == 0 && i + 1 < count))
			return false;
		birth -= step;
		out[i].birth_slice = (uint32_t)birth;
		out[i].count = span_varint(&columns[SLICE_DEATHS]);
		out[i].bytes =
			mean * out[i].count + (uint64_t)span_signed(&columns[SLICE_DEATH_BYTES]);
	}
	return true;
}

static bool get_buckets(struct span *buckets, struct span *counts, struct trace_bucket *out,
			uint16_t *ret_count)
{
	uint64_t count = span_varint(buckets), last = 0;
	if (count > TRACE_BUCKETS || count > span_left(counts))
		return false;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t step = span_varint(buckets);
		if ((step == 0 && i > 0) || step >= TRACE_BUCKETS - last)
			return false;
		last += step;
		out[i].bucket = (uint32_t)last;
		out[i].count = span_varint(counts);
	}
	*ret_count = (uint16_t)count;
	return true;
}

/* How far the arrays are filled. */
struct fill {
	size_t deaths, sizes, lives;
	bool moved; /* there are shares less what was live before */
};

static bool get_row(struct span *columns, struct slices_reader *r, struct trace_slice_row *row,
		    struct fill *fill)
{
	struct trace_bucket *sizes = r->sizes + fill->sizes, *lives = r->lives + fill->lives;
	row->births = span_varint(&columns[SLICE_BIRTHS]);
	row->birth_bytes = span_varint(&columns[SLICE_BIRTH_BYTES]);
	row->temporary = span_varint(&columns[SLICE_TEMPORARY]);
	row->failed = span_varint(&columns[SLICE_FAILED]);
	row->sizes = sizes;
	row->lives = lives;
	uint64_t peak = span_varint(&columns[SLICE_PEAK]);
	if (peak > 0) {
		row->peak_known = true;
		row->peak_count = peak - 1;
		row->peak_bytes = span_varint(&columns[SLICE_PEAK]);
	} else if (fill->moved) {
		row->peak_count = (uint64_t)span_signed(&columns[SLICE_PEAK_MOVED]);
		row->peak_bytes = (uint64_t)span_signed(&columns[SLICE_PEAK_MOVED]);
	}
	if (!get_deaths(columns, r->slice.slice_id, row, r->deaths + fill->deaths))
		return false;
	fill->deaths += row->death_count;
	if (r->no_buckets)
		return true;
	if (!get_buckets(&columns[SLICE_SIZE_BUCKETS], &columns[SLICE_SIZE_COUNTS], sizes,
			 &row->size_bucket_count) ||
	    !get_buckets(&columns[SLICE_LIFE_BUCKETS], &columns[SLICE_LIFE_COUNTS], lives,
			 &row->life_bucket_count))
		return false;
	fill->sizes += row->size_bucket_count;
	fill->lives += row->life_bucket_count;
	return true;
}

static const char *get_rows(struct span *columns, uint32_t stack_count, struct slices_reader *r)
{
	struct fill fill = {.moved = span_left(&columns[SLICE_PEAK_MOVED]) > 0};
	uint64_t stack_id = 0;
	for (uint32_t i = 0; i < r->slice.row_count; i++) {
		uint64_t step = span_varint(&columns[SLICE_STACK]);
		if (step >= stack_count - stack_id || (step == 0 && i > 0))
			return "a stack is not in the file";
		stack_id += step;
		r->rows[i].stack_id = (uint32_t)stack_id;
		if (!get_row(columns, r, &r->rows[i], &fill))
			return "a row is out of range";
	}
	r->slice.rows = r->rows;
	return NULL;
}

static const char *get_culled(struct span *column, struct slices_reader *r)
{
	uint64_t thread_id = 0;
	if (!span_left(column))
		return NULL;
	r->slice.culled_events = span_varint(column);
	uint64_t count = span_varint(column);
	if (count > span_left(column))
		return "it has more threads than it can have";
	r->threads = tm_alloc_array((size_t)count + 1, sizeof *r->threads);
	if (!r->threads)
		return decode_no_memory;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t step = span_varint(column);
		if (step > UINT32_MAX - thread_id || (step == 0 && i > 0))
			return "its threads are out of order";
		thread_id += step;
		r->threads[i] = (struct trace_culled_thread){
			.thread_id = (uint32_t)thread_id,
			.births = span_varint(column),
			.birth_bytes = span_varint(column),
			.ends = span_varint(column),
			.end_bytes = span_varint(column),
			.foreign_ends = span_varint(column),
			.temporary = span_varint(column),
		};
	}
	r->slice.culled_thread_count = (uint32_t)count;
	r->slice.culled_threads = r->threads;
	return NULL;
}

const char *slices_get(struct span payload, uint32_t stack_count, struct slices_reader *r)
{
	struct span columns[SLICE_COLUMNS];
	if (!container_get(payload, columns, SLICE_COLUMNS))
		return "its columns do not fit";
	r->slice = (struct trace_slice){0};
	slices_get_facts(&columns[SLICE_FACTS], &r->slice);
	const char *wrong = allocate(r, columns);
	if (!wrong)
		wrong = get_rows(columns, stack_count, r);
	if (!wrong)
		wrong = get_culled(&columns[SLICE_CULLED], r);
	for (int i = 0; i < SLICE_COLUMNS && !wrong; i++)
		wrong = columns[i].bad ? "a column is too short" : NULL;
	return wrong;
}

/* ---- ends alone ---- */

static void skip_varints(struct span *s, uint64_t count)
{
	while (count > 0 && s->next < s->end)
		count -= *s->next++ < 0x80;
	s->bad |= count > 0;
}

/* Entries begin with the youngest births: those before first_birth are passed over. */
static bool get_row_ends(struct span *columns, uint64_t slice_id, uint64_t first_birth,
			 uint64_t before, uint64_t mean, struct trace_ends_row *row)
{
	uint64_t left = span_varint(&columns[SLICE_DEATH_COUNT]), birth = slice_id;
	if (left > span_left(&columns[SLICE_DEATHS]))
		return false;
	for (bool first = true; left > 0; left--, first = false) {
		uint64_t step = span_varint(&columns[SLICE_DEATH_AGE]);
		if (step > birth || (step == 0 && !first))
			return false;
		birth -= step;
		if (birth < first_birth) {
			row->from_before = birth >= before;
			skip_varints(&columns[SLICE_DEATH_AGE], left - 1);
			break;
		}
		uint64_t count = span_varint(&columns[SLICE_DEATHS]);
		row->count += count;
		row->bytes += mean * count + (uint64_t)span_signed(&columns[SLICE_DEATH_BYTES]);
	}
	skip_varints(&columns[SLICE_DEATHS], left);
	skip_varints(&columns[SLICE_DEATH_BYTES], left);
	return true;
}

const char *slices_get_ends(struct span payload, uint32_t stack_count,
			    const struct slices_ends_of *which, trace_ends_fn fn, void *ctx)
{
	struct span columns[SLICE_COLUMNS];
	struct trace_slice facts = {0};
	uint64_t stack_id = 0;
	if (!container_get(payload, columns, SLICE_COLUMNS))
		return "its columns do not fit";
	slices_get_facts(&columns[SLICE_FACTS], &facts);
	if (facts.row_count > span_left(&columns[SLICE_STACK]))
		return "it has more rows than it can have";
	if (facts.slice_id != which->slice_id)
		return "slices are missing before it";
	for (uint32_t i = 0; i < facts.row_count; i++) {
		uint64_t step = span_varint(&columns[SLICE_STACK]);
		if (step >= stack_count - stack_id || (step == 0 && i > 0))
			return "a stack is not in the file";
		stack_id += step;
		const struct trace_slice_row births = {
			.births = span_varint(&columns[SLICE_BIRTHS]),
			.birth_bytes = span_varint(&columns[SLICE_BIRTH_BYTES])};
		struct trace_ends_row row = {.stack_id = (uint32_t)stack_id};
		if (!get_row_ends(columns, which->slice_id, which->first_birth, which->before,
				  mean_bytes(&births), &row))
			return "a row is out of range";
		if ((row.count || row.bytes || row.from_before) && fn(ctx, &row))
			break;
	}
	const char *wrong = NULL;
	for (int i = 0; i <= SLICE_DEATH_BYTES && !wrong; i++)
		wrong = columns[i].bad ? "a column is too short" : NULL;
	return wrong;
}

void slices_done(struct slices_reader *r)
{
	r->rows = tm_free(r->rows);
	r->deaths = tm_free(r->deaths);
	r->sizes = tm_free(r->sizes);
	r->lives = tm_free(r->lives);
	r->threads = tm_free(r->threads);
	r->slice.rows = NULL;
	r->slice.culled_threads = NULL;
}

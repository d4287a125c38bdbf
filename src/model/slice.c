/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cutting the run into slices: the open slice's figures become rows, one per
 * stack that changed in it, and are folded into the sums of closed slices.
 */
#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "model/sort.h"
#include "model/state.h"

enum { ROWS_AHEAD = 12 };

/* How far the output arrays are filled. */
struct fill {
	size_t deaths, buckets;
};

void model_rows_done(struct model_rows *rows)
{
	tm_free(rows->rows);
	tm_free(rows->deaths);
	tm_free(rows->buckets);
	tm_free(rows->order);
	tm_free(rows->order_other);
	tm_free(rows->rank);
	tm_free(rows->counts);
	tm_free(rows->cells);
	tm_free(rows->cells_other);
	*rows = (struct model_rows){0};
}

void model_slice_begin(struct model *m, uint32_t slice_id)
{
	m->slice = (struct model_open_slice){
		.slice_id = slice_id,
		.start_us = m->now_us,
		.clock_us = m->now_us,
		.other_us = m->other_us,
		.first_event = m->events,
		.first_allocation = model_births(m),
		.first_bytes = m->allocated_bytes,
		.first_frees = model_frees(m),
		.first_freed_bytes = m->allocated_bytes - m->live_bytes,
		.first_temporary = m->temporary,
		.min_bytes = m->live_bytes,
		.max_bytes = m->live_bytes,
		.max_us = m->now_us,
	};
}

bool model_slice_due(const struct model *m)
{
	uint64_t count = m->events - m->slice.first_event;
	const struct model_open_slice *open = &m->slice;
	uint64_t other_from = open->other_us > open->clock_us ? open->other_us : open->clock_us;
	uint64_t last_us = m->now_us > open->clock_us ? m->now_us - open->clock_us : 0;
	if (m->other_us > other_from && m->other_us - other_from > last_us)
		last_us = m->other_us - other_from;
	if (m->cells.count >= m->cells_most && m->slice.slice_id < MODEL_SLICES_BY_CELLS)
		return true;
	/* Counters of the open slice have 32 bits. */
	if (model_births(m) - m->slice.first_allocation >= MODEL_SLICE_EVENTS_MAX)
		return true;
	return count >= m->slice_events || (count > 0 && last_us >= m->slice_us);
}

/* Within a row: deaths by birth slice, then sizes, then lifetimes. */
static size_t cell_class(const struct model *m, const struct cell *cell)
{
	enum cell_kind kind = cell_kind(cell);
	if (kind == CELL_DEATH)
		return cell_value(cell);
	return m->slice.slice_id + (kind == CELL_SIZE ? 0 : TRACE_BUCKETS) + cell_value(cell);
}

static size_t cell_classes(const struct model *m)
{
	return m->slice.slice_id + 2 * (size_t)TRACE_BUCKETS;
}

/* ---- room ---- */

/* `array` is the address of a pointer. The old content need not survive, so nothing is copied. */
static int reserve(void *array, size_t *room, size_t count, size_t bytes)
{
	void *old;
	if (count <= *room)
		return 0;
	void *wider = tm_alloc_array(count + count / 4, bytes);
	if (!wider)
		return -ENOMEM;
	memcpy(&old, array, sizeof old);
	tm_free(old);
	memcpy(array, &wider, sizeof wider);
	*room = count + count / 4;
	return 0;
}

/* Each event adds to one bucket at most, and a stack has room for so many beside it. */
static size_t most_buckets(const struct model *m)
{
	uint64_t events = m->events - m->slice.first_event;
	uint64_t beside = (uint64_t)m->stacks.touched_count * 2 * STACK_CELLS;
	return (size_t)(events < beside ? events : beside) + m->cells.count;
}

static int reserve_rows(struct model *m)
{
	struct model_rows *out = &m->out;
	size_t rows = m->stacks.touched_count;
	size_t cells = m->cells.count;
	if (reserve(&out->order, &out->order_room, rows, sizeof *out->order) ||
	    reserve(&out->order_other, &out->order_other_room, rows, sizeof *out->order_other) ||
	    reserve(&out->rows, &out->rows_room, rows, sizeof *out->rows) ||
	    reserve(&out->deaths, &out->deaths_room, rows + cells, sizeof *out->deaths) ||
	    reserve(&out->buckets, &out->buckets_room, most_buckets(m), sizeof *out->buckets) ||
	    reserve(&out->rank, &out->rank_room, m->stacks.slot_count, sizeof *out->rank) ||
	    reserve(&out->counts, &out->counts_room,
		    rows > cell_classes(m) ? rows : cell_classes(m), sizeof *out->counts) ||
	    reserve(&out->cells, &out->cells_room, cells, sizeof *out->cells) ||
	    reserve(&out->cells_other, &out->cells_other_room, cells, sizeof *out->cells_other))
		return -ENOMEM;
	return 0;
}

/* ---- order ---- */

static void order_rows(struct model *m)
{
	struct model_rows *out = &m->out;
	size_t rows = m->stacks.touched_count;
	for (size_t i = 0; i < rows; i++) {
		uint32_t slot = m->stacks.touched[i];
		out->order[i] = (uint64_t)stacks_hot(&m->stacks, slot)->stack_id << 32 | slot;
	}
	if (rows == 0)
		return;
	out->sorted = sort_by_upper(out->order, out->order_other, rows);
	for (size_t i = 0; i < rows; i++)
		out->rank[(uint32_t)out->sorted[i]] = (uint32_t)i;
}

/* Counts become the places where each of them begins. */
static void counts_to_starts(uint32_t *counts, size_t count)
{
	uint32_t sum = 0;
	for (size_t i = 0; i < count; i++) {
		uint32_t here = counts[i];
		counts[i] = sum;
		sum += here;
	}
}

/* By class, then, keeping that order, by row; afterwards counts[row] is where the row's cells end.
 */
static void order_cells(struct model *m)
{
	struct model_rows *out = &m->out;
	uint32_t *counts = out->counts;
	memset(counts, 0, cell_classes(m) * sizeof *counts);
	for (size_t i = 0; i < m->cells.room; i++) {
		if (m->cells.cells[i].key)
			counts[cell_class(m, &m->cells.cells[i])]++;
	}
	counts_to_starts(counts, cell_classes(m));
	for (size_t i = 0; i < m->cells.room; i++) {
		const struct cell *cell = &m->cells.cells[i];
		if (cell->key)
			out->cells_other[counts[cell_class(m, cell)]++] = *cell;
	}
	memset(counts, 0, m->stacks.touched_count * sizeof *counts);
	for (size_t i = 0; i < m->cells.count; i++)
		counts[out->rank[cell_slot(&out->cells_other[i])]]++;
	counts_to_starts(counts, m->stacks.touched_count);
	for (size_t i = 0; i < m->cells.count; i++) {
		const struct cell *cell = &out->cells_other[i];
		out->cells[counts[out->rank[cell_slot(cell)]]++] = *cell;
	}
}

/* ---- rows ---- */

static void add_death(struct model_rows *out, struct fill *fill, uint32_t birth_slice,
		      uint64_t count, uint64_t bytes)
{
	if (count || bytes)
		out->deaths[fill->deaths++] = (struct trace_death){
			.birth_slice = birth_slice, .count = count, .bytes = bytes};
}

/* One histogram: the counters beside the stack and its cells of that kind, together. */
static uint16_t add_buckets(struct model_rows *out, struct fill *fill, const uint32_t *beside,
			    const struct cell *cells, size_t count)
{
	uint64_t counts[TRACE_BUCKETS] = {0};
	uint64_t used = 0;
	for (size_t i = 0; i < STACK_CELLS; i++) {
		if (beside[i]) {
			uint32_t bucket = (beside[i] >> STACK_CELL_COUNT_BITS) - 1;
			counts[bucket] = beside[i] & ((1u << STACK_CELL_COUNT_BITS) - 1);
			used |= 1ull << bucket;
		}
	}
	for (size_t i = 0; i < count; i++) {
		counts[cell_value(&cells[i])] += cells[i].count;
		used |= 1ull << cell_value(&cells[i]);
	}
	size_t first = fill->buckets;
	for (; used; used &= used - 1) {
		uint32_t bucket = (uint32_t)__builtin_ctzll(used);
		if (counts[bucket])
			out->buckets[fill->buckets++] =
				(struct trace_bucket){.bucket = bucket, .count = counts[bucket]};
	}
	return (uint16_t)(fill->buckets - first);
}

static size_t count_kind(const struct cell *cells, size_t count, enum cell_kind kind)
{
	size_t i = 0;
	while (i < count && cell_kind(&cells[i]) == kind)
		i++;
	return i;
}

static void fill_row(struct model *m, struct fill *fill, uint32_t slot, const struct cell *cells,
		     size_t count, struct trace_slice_row *row)
{
	struct model_rows *out = &m->out;
	const struct stack_hot *stack = stacks_hot(&m->stacks, slot);
	*row = (struct trace_slice_row){
		.stack_id = stack->stack_id,
		.births = stack->births,
		.birth_bytes = stack->birth_bytes,
		.temporary = stack->temporary,
		.failed = stacks_cold(&m->stacks, slot)->open_failed,
		.deaths = &out->deaths[fill->deaths],
	};
	size_t part = count_kind(cells, count, CELL_DEATH);
	size_t first = fill->deaths;
	for (size_t i = 0; i < part; i++)
		add_death(out, fill, cell_value(&cells[i]), cells[i].count, cells[i].bytes);
	add_death(out, fill, m->slice.slice_id, stack->deaths, stack->death_bytes);
	row->death_count = (uint32_t)(fill->deaths - first);
	cells += part;
	count -= part;
	part = count_kind(cells, count, CELL_SIZE);
	row->sizes = &out->buckets[fill->buckets];
	row->size_bucket_count = add_buckets(out, fill, stack->sizes, cells, part);
	row->lives = &out->buckets[fill->buckets];
	row->life_bucket_count = add_buckets(out, fill, stack->lives, cells + part, count - part);
	if (m->slice.peak_rose) {
		row->peak_known = true;
		row->peak_count = model_share_blocks(m, stack);
		row->peak_bytes = model_share_bytes(m, stack);
	}
}

/* The open slice's sums join those of the closed ones. */
static void fold_stack(struct stack_table *stacks, uint32_t slot)
{
	struct stack_hot *hot = stacks_hot(stacks, slot);
	struct stack_cold *cold = stacks_cold(stacks, slot);
	cold->births += hot->births;
	cold->birth_bytes += hot->birth_bytes;
	cold->temporary += hot->temporary;
	cold->failed += cold->open_failed;
	cold->open_failed = 0;
	hot->base_bytes = stacks_live_bytes(hot);
	hot->base_blocks = stacks_live_blocks(hot);
	hot->birth_bytes = hot->death_bytes = 0;
	hot->births = hot->deaths = hot->temporary = 0;
	hot->flags &= ~STACK_TOUCHED;
	memset(hot->sizes, 0, sizeof hot->sizes);
	memset(hot->lives, 0, sizeof hot->lives);
}

/*
 * Stacks are visited in order of their ids, which is no order of memory. Inline:
 * the compiler drops calls of a function that only prefetches.
 */
static inline __attribute__((always_inline)) void prefetch_row(const struct model *m, size_t row)
{
	if (row >= m->stacks.touched_count)
		return;
	uint32_t slot = (uint32_t)m->out.sorted[row];
	const struct stack_hot *stack = stacks_hot(&m->stacks, slot);
	__builtin_prefetch(stack, 1);
	__builtin_prefetch(stack->sizes, 1);
	__builtin_prefetch(stacks_cold(&m->stacks, slot), 1);
}

static void fill_slice(const struct model *m, struct trace_slice *ret)
{
	const struct model_open_slice *open = &m->slice;
	*ret = (struct trace_slice){
		.slice_id = open->slice_id,
		.start_ns = open->start_us * 1000,
		.end_ns = m->now_us * 1000,
		.first_event = open->first_event,
		.event_count = m->events - open->first_event,
		.live_bytes = m->live_bytes,
		.live_blocks = model_live_count(m),
		.min_live_bytes = open->min_bytes,
		.max_live_bytes = open->max_bytes,
		.max_live_time_ns = open->max_us * 1000,
		.births = model_births(m) - open->first_allocation,
		.birth_bytes = m->allocated_bytes - open->first_bytes,
		.deaths = model_frees(m) - open->first_frees,
		.death_bytes = m->allocated_bytes - m->live_bytes - open->first_freed_bytes,
		.temporary = m->temporary - open->first_temporary,
		.mapped_bytes = maps_committed_bytes(&m->maps),
		.peak_bytes = m->peak_bytes,
		.peak_blocks = m->peak_blocks,
		.peak_time_ns = m->peak_us * 1000,
		.freed_unseen = m->freed_unseen,
		.freed_older = m->freed_older,
		.rss_time_ns = m->rss.heap_known ? m->rss.time_us * 1000 : 0,
		.rss_heap_bytes = m->rss.heap_known ? m->rss.heap_bytes : 0,
		.row_count = m->stacks.touched_count,
		.rows = m->out.rows,
	};
}

/*
 * Slices get longer with the run, so that their number stays small. But what an open one takes
 * grows with it: not beyond sixteen times the first length, until numbers become scarce.
 */
static void start_next(struct model *m)
{
	uint32_t next = m->slice.slice_id + 1;
	bool grows = next <= MODEL_SLICES_GROW || next > MODEL_SLICES_SCARCE;
	if (grows && next % MODEL_SLICES_BEFORE_DOUBLING == 0) {
		if (m->slice_events <= MODEL_SLICE_EVENTS_MAX / 4)
			m->slice_events *= 2;
		if (m->slice_us <= UINT64_MAX / 2)
			m->slice_us *= 2;
	}
	model_slice_begin(m, next);
}

void model_slice_fold(struct model *m)
{
	for (uint32_t i = 0; i < m->stacks.touched_count; i++)
		fold_stack(&m->stacks, m->stacks.touched[i]);
	m->stacks.touched_count = 0;
	cells_clear(&m->cells);
	model_slice_begin(m, m->slice.slice_id);
}

/* Rows of the open slice; with `fold` their stacks' counters begin anew. */
static int fill_rows(struct model *m, bool fold, struct tm_error *err)
{
	if (m->loaded)
		return tm_fail(err, -EINVAL, "a loaded model cannot be cut into slices");
	if (m->slice.slice_id == MODEL_SLICE_COUNT_MAX)
		return tm_fail(err, -EOVERFLOW, "too many slices for the model");
	if (reserve_rows(m))
		return tm_fail(err, -ENOMEM, "no memory for a slice of %u stacks",
			       m->stacks.touched_count);
	order_rows(m);
	order_cells(m);
	struct fill fill = {0};
	size_t first = 0;
	for (size_t i = 0; i < m->stacks.touched_count; i++) {
		size_t end = m->out.counts[i];
		uint32_t slot = (uint32_t)m->out.sorted[i];
		prefetch_row(m, i + ROWS_AHEAD);
		fill_row(m, &fill, slot, &m->out.cells[first], end - first, &m->out.rows[i]);
		if (fold)
			fold_stack(&m->stacks, slot);
		first = end;
	}
	return 0;
}

int model_slice_look(struct model *m, struct trace_slice *ret_slice, struct tm_error *err)
{
	int rc = fill_rows(m, false, err);
	if (!rc)
		fill_slice(m, ret_slice);
	return rc;
}

int model_slice_take(struct model *m, struct trace_slice *ret_slice, struct tm_error *err)
{
	int rc = fill_rows(m, true, err);
	if (rc)
		return rc;
	fill_slice(m, ret_slice);
	m->stacks.touched_count = 0;
	cells_clear(&m->cells);
	start_next(m);
	return 0;
}

uint64_t model_next_block(const struct model *m)
{
	return m->allocations;
}

void model_shrink(struct model *m)
{
	m->cells_most = MODEL_CELLS_SMALL;
	model_rows_done(&m->out);
	if (!m->cells.count)
		cells_done(&m->cells);
}

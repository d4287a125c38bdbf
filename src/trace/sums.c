/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sums.h"

#include "base/memory.h"
#include "trace/container.h"
#include "trace/decode.h"

#include <errno.h>

enum sums_column {
	SUMS_FACTS, /* slices, rows */
	SUMS_STACK, /* step from the stack before */
	SUMS_BIRTHS,
	SUMS_BIRTH_BYTES,
	SUMS_LIVE, /* births less deaths */
	SUMS_LIVE_BYTES,
	SUMS_TEMPORARY,
	SUMS_FAILED,
	SUMS_PEAK,       /* blocks */
	SUMS_PEAK_BYTES, /* bytes */
	SUMS_COLUMNS,
};

enum { SUMS_AHEAD = 64 }; /* stacks, of which one in six or so has a row */

void sums_done(struct sums *sums)
{
	tm_free(sums->rows);
	tm_free(sums->row_of);
	*sums = (struct sums){0};
}

/* ---- adding up ---- */

static int grow_map(struct sums *sums, uint32_t stack_id)
{
	size_t room = sums->map_room ? sums->map_room : 256;
	while (room <= stack_id)
		room *= 2;
	uint32_t *row_of = tm_grow_array(sums->row_of, room, sizeof *row_of);
	if (!row_of)
		return -ENOMEM;
	memset(row_of + sums->map_room, 0, (room - sums->map_room) * sizeof *row_of);
	sums->row_of = row_of;
	sums->map_room = room;
	return 0;
}

static struct sums_row *row_for(struct sums *sums, uint32_t stack_id)
{
	if (stack_id >= sums->map_room && grow_map(sums, stack_id))
		return NULL;
	if (sums->row_of[stack_id])
		return &sums->rows[sums->row_of[stack_id] - 1];
	if (sums->count == sums->room) {
		size_t room = sums->room ? sums->room + sums->room / 2 : 256;
		void *rows = tm_grow_array(sums->rows, room, sizeof *sums->rows);
		if (!rows)
			return NULL;
		sums->rows = rows;
		sums->room = room;
	}
	struct sums_row *row = &sums->rows[sums->count];
	*row = (struct sums_row){.sum = {.stack_id = stack_id}, .epoch = sums->epoch};
	sums->row_of[stack_id] = (uint32_t)++sums->count;
	return row;
}

/* If the peak rose since the row changed last, its share is what it has had live since then. */
static void settle_share(const struct sums *sums, const struct sums_row *row, struct trace_sum *ret)
{
	if (row->epoch == sums->epoch)
		return;
	ret->peak_count = row->sum.births - row->sum.deaths;
	ret->peak_bytes = row->sum.birth_bytes - row->sum.death_bytes;
}

static void add_row(struct sums *sums, struct sums_row *to, const struct trace_slice_row *row)
{
	settle_share(sums, to, &to->sum);
	to->epoch = sums->epoch;
	to->sum.births += row->births;
	to->sum.birth_bytes += row->birth_bytes;
	to->sum.temporary += row->temporary;
	to->sum.failed += row->failed;
	/* Modulo 2^64: an undone realloc takes a death back. */
	for (uint32_t i = 0; i < row->death_count; i++) {
		to->sum.deaths += row->deaths[i].count;
		to->sum.death_bytes += row->deaths[i].bytes;
	}
	if (row->peak_known) {
		to->sum.peak_count = row->peak_count;
		to->sum.peak_bytes = row->peak_bytes;
	} else { /* what was live before, which is settled, and what came since */
		to->sum.peak_count += row->peak_count;
		to->sum.peak_bytes += row->peak_bytes;
	}
}

/* In slices that were merged not every row says so. */
static bool peak_rose(const struct trace_slice *slice)
{
	for (uint32_t i = 0; i < slice->row_count; i++)
		if (slice->rows[i].peak_known)
			return true;
	return false;
}

int sums_add(struct sums *sums, const struct trace_slice *slice)
{
	if (peak_rose(slice))
		sums->epoch++;
	for (uint32_t i = 0; i < slice->row_count; i++) {
		struct sums_row *row = row_for(sums, slice->rows[i].stack_id);
		if (!row)
			return -ENOMEM;
		add_row(sums, row, &slice->rows[i]);
	}
	sums->slices++;
	return 0;
}

/* Rows lie in the order in which they came: by stack they are all over the memory. */
static void prefetch_row(const struct sums *sums, size_t stack_id)
{
	if (stack_id < sums->map_room && sums->row_of[stack_id])
		__builtin_prefetch(&sums->rows[sums->row_of[stack_id] - 1]);
}

/* The row of the next stack from *at on; false: there is none. */
static bool next_sum(const struct sums *sums, size_t *at, struct trace_sum *ret)
{
	while (*at < sums->map_room && !sums->row_of[*at])
		prefetch_row(sums, ++*at + SUMS_AHEAD);
	prefetch_row(sums, *at + 1 + SUMS_AHEAD);
	if (*at == sums->map_room)
		return false;
	const struct sums_row *row = &sums->rows[sums->row_of[(*at)++] - 1];
	*ret = row->sum;
	settle_share(sums, row, ret);
	return true;
}

void sums_list(const struct sums *sums, struct trace_sum *out)
{
	for (size_t at = 0; next_sum(sums, &at, out);)
		out++;
}

/* ---- to bytes and back ---- */

static void put_row(struct bytes *columns, const struct trace_sum *sum, uint32_t last_stack)
{
	bytes_put_varint(&columns[SUMS_STACK], sum->stack_id - last_stack);
	bytes_put_varint(&columns[SUMS_BIRTHS], sum->births);
	bytes_put_varint(&columns[SUMS_BIRTH_BYTES], sum->birth_bytes);
	bytes_put_varint(&columns[SUMS_LIVE], sum->births - sum->deaths);
	bytes_put_varint(&columns[SUMS_LIVE_BYTES], sum->birth_bytes - sum->death_bytes);
	bytes_put_varint(&columns[SUMS_TEMPORARY], sum->temporary);
	bytes_put_varint(&columns[SUMS_FAILED], sum->failed);
	bytes_put_varint(&columns[SUMS_PEAK], sum->peak_count);
	bytes_put_varint(&columns[SUMS_PEAK_BYTES], sum->peak_bytes);
}

void sums_put(struct bytes *out, const struct sums *sums)
{
	struct bytes columns[SUMS_COLUMNS] = {0};
	struct span spans[SUMS_COLUMNS];
	bytes_put_varint(&columns[SUMS_FACTS], sums->slices);
	bytes_put_varint(&columns[SUMS_FACTS], sums->count);
	/* Row by row: a list of them would be the largest thing that a recorder needs at its end.
	 */
	struct trace_sum sum;
	uint32_t last_stack = 0;
	for (size_t at = 0; next_sum(sums, &at, &sum); last_stack = sum.stack_id)
		put_row(columns, &sum, last_stack);
	for (int i = 0; i < SUMS_COLUMNS; i++) {
		spans[i] = span_of(columns[i].data, columns[i].used);
		out->failed |= columns[i].failed;
	}
	container_put(out, spans, SUMS_COLUMNS);
	for (int i = 0; i < SUMS_COLUMNS; i++)
		bytes_done(&columns[i]);
}

static void get_row(struct span *columns, struct trace_sum *sum)
{
	sum->births = span_varint(&columns[SUMS_BIRTHS]);
	sum->birth_bytes = span_varint(&columns[SUMS_BIRTH_BYTES]);
	sum->deaths = sum->births - span_varint(&columns[SUMS_LIVE]);
	sum->death_bytes = sum->birth_bytes - span_varint(&columns[SUMS_LIVE_BYTES]);
	sum->temporary = span_varint(&columns[SUMS_TEMPORARY]);
	sum->failed = span_varint(&columns[SUMS_FAILED]);
	sum->peak_count = span_varint(&columns[SUMS_PEAK]);
	sum->peak_bytes = span_varint(&columns[SUMS_PEAK_BYTES]);
}

static const char *get_rows(struct span *columns, uint32_t stack_count, struct sums *sums)
{
	uint32_t count = span_u32(&columns[SUMS_FACTS]);
	uint64_t stack_id = 0;
	if (count > span_left(&columns[SUMS_STACK]))
		return "it has more rows than it can have";
	for (uint32_t i = 0; i < count; i++) {
		uint64_t step = span_varint(&columns[SUMS_STACK]);
		if (step >= stack_count - stack_id || (step == 0 && i > 0))
			return "a stack is not in the file";
		stack_id += step;
		struct sums_row *row = row_for(sums, (uint32_t)stack_id);
		if (!row)
			return decode_no_memory;
		get_row(columns, &row->sum);
	}
	return NULL;
}

const char *sums_get(struct span payload, uint32_t stack_count, struct sums *sums)
{
	struct span columns[SUMS_COLUMNS];
	if (!container_get(payload, columns, SUMS_COLUMNS))
		return "its columns do not fit";
	sums->slices = span_u32(&columns[SUMS_FACTS]);
	const char *wrong = get_rows(columns, stack_count, sums);
	for (int i = 0; i < SUMS_COLUMNS && !wrong; i++)
		wrong = columns[i].bad ? "a column is too short" : NULL;
	return wrong;
}

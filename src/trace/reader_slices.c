/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reader_slices.h"

#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Of those that begin alike the one that stands for most comes first; of those in the journal,
 * which have the open slice again and again, the last.
 */
static int compare_rows(const void *a, const void *b)
{
	const struct reader_slice *x = a, *y = b;
	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	if (x->last != y->last)
		return x->last > y->last ? -1 : 1;
	return x->group > y->group ? -1 : x->group < y->group;
}

/* A merged slice and those it was made of may be there both: its writer was killed then. */
static void drop_covered(struct reader_slices *s)
{
	uint64_t next = 0;
	size_t kept = 0;
	s->whole = true;
	for (size_t i = 0; i < s->count; i++) {
		struct reader_slice row = s->rows[i];
		if (row.last < next)
			continue;
		s->whole &= row.first == next;
		s->merged |= row.first != row.last;
		next = (uint64_t)row.last + 1;
		s->rows[kept++] = row;
	}
	s->count = kept;
}

int reader_slices_init(struct reader_slices *s, const struct section *section, struct tm_error *err)
{
	size_t count = section_count(section, FORMAT_SLICE);
	*s = (struct reader_slices){.rows = tm_alloc_array(count + 1, sizeof *s->rows)};
	if (!s->rows)
		return tm_fail(err, -ENOMEM, "There is no memory for the slices of the trace");
	for (size_t i = 0; i < count; i++) {
		const struct format_block_header *header =
			&section_group(section, FORMAT_SLICE, i)->header;
		uint64_t last = header->first_ordinal + (header->count ? header->count - 1 : 0);
		if (header->first_ordinal > last || last >= UINT32_MAX)
			continue;
		s->rows[s->count++] =
			(struct reader_slice){.group = (uint32_t)i,
					      .first = (uint32_t)header->first_ordinal,
					      .last = (uint32_t)last};
	}
	qsort(s->rows, s->count, sizeof *s->rows, compare_rows);
	drop_covered(s);
	return 0;
}

void reader_slices_done(struct reader_slices *s)
{
	tm_free(s->rows);
	*s = (struct reader_slices){0};
}

/* The first that ends at the number or later. */
static size_t first_ending(const struct reader_slices *s, uint64_t number)
{
	size_t low = 0, high = s->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (s->rows[middle].last < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool reader_slices_find(const struct reader_slices *s, uint32_t number, size_t *ret_index)
{
	size_t index = first_ending(s, number);
	if (index == s->count || s->rows[index].first > number)
		return false;
	*ret_index = index;
	return true;
}

bool reader_slices_before(const struct reader_slices *s, uint64_t end, size_t *ret_count)
{
	size_t index = first_ending(s, end);
	if (index < s->count && s->rows[index].first < end)
		return false;
	*ret_count = index;
	return true;
}

static uint32_t renumber_deaths(const struct reader_slices *s, struct trace_death *deaths,
				uint32_t count, size_t newest)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < count; i++) {
		size_t index = first_ending(s, deaths[i].birth_slice);
		struct trace_death death = deaths[i];
		death.birth_slice = (uint32_t)(index < newest ? index : newest);
		if (kept && deaths[kept - 1].birth_slice == death.birth_slice) {
			deaths[kept - 1].count += death.count;
			deaths[kept - 1].bytes += death.bytes;
		} else {
			deaths[kept++] = death;
		}
	}
	return kept;
}

void reader_slices_renumber(const struct reader_slices *s, size_t index,
			    struct slices_reader *slice)
{
	slice->slice.slice_id = (uint32_t)index;
	for (uint32_t i = 0; s->merged && i < slice->slice.row_count; i++) {
		struct trace_slice_row *row = &slice->rows[i];
		size_t at = (size_t)(row->deaths - slice->deaths);
		row->death_count = renumber_deaths(s, slice->deaths + at, row->death_count, index);
	}
}

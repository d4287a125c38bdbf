/* SPDX-License-Identifier: Apache-2.0 */
/* Several columns as one payload: see the header. */
#include "trace/container.h"

#include "trace/format.h"

enum { CONTAINER_PART_MIN = 256 }; /* shorter parts gain nothing from a table of their own */

void container_put(struct bytes *out, const struct span *columns, size_t count)
{
	size_t total = (count + 1) * VARINT_BYTES_MAX;
	for (size_t i = 0; i < count; i++)
		total += span_left(&columns[i]);
	bytes_reserve(out, total); /* at once; without memory it fails once and for all */
	bytes_put_varint(out, count);
	for (size_t i = 0; i < count; i++)
		bytes_put_varint(out, span_left(&columns[i]));
	for (size_t i = 0; i < count; i++)
		bytes_put(out, columns[i].next, span_left(&columns[i]));
}

/* The columns' lengths; what is left of *payload are their bytes. */
static size_t get_lengths(struct span *payload, size_t lengths[CONTAINER_COLUMNS_MAX])
{
	size_t count = (size_t)span_limited(payload, CONTAINER_COLUMNS_MAX);
	for (size_t i = 0; i < count; i++)
		lengths[i] = (size_t)span_limited(payload, FORMAT_RAW_MAX);
	return count;
}

bool container_get(struct span payload, struct span *columns, size_t count)
{
	size_t lengths[CONTAINER_COLUMNS_MAX];
	size_t stored = get_lengths(&payload, lengths);
	for (size_t i = 0; i < count; i++)
		columns[i] = span_of(NULL, 0);
	for (size_t i = 0; i < stored; i++) {
		struct span column = span_cut(&payload, lengths[i]);
		if (i < count)
			columns[i] = column;
	}
	return !payload.bad;
}

size_t container_cut(struct span payload, size_t ends[CONTAINER_COLUMNS_MAX])
{
	size_t lengths[CONTAINER_COLUMNS_MAX], total = span_left(&payload), parts = 0;
	size_t count = get_lengths(&payload, lengths);
	size_t start = 0, end = total - span_left(&payload);
	for (size_t i = 0; i < count; i++) {
		end += lengths[i];
		if (end > total) { /* no container at all: one part */
			parts = 0;
			break;
		}
		if (end - start < CONTAINER_PART_MIN)
			continue;
		ends[parts++] = end;
		start = end;
	}
	if (parts == 0 || ends[parts - 1] < total)
		ends[parts < CONTAINER_COLUMNS_MAX ? parts++ : parts - 1] = total;
	return parts;
}

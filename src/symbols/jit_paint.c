/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/jit_paint.h"

#include <errno.h>

#include "base/memory.h"

int paint_init(struct paint *paint, const struct jit_request *requests, size_t count)
{
	*paint = (struct paint){.requests = requests, .count = count, .leaves = 1};
	while (paint->leaves < count)
		paint->leaves *= 2;
	paint->nodes = tm_alloc_array(paint->leaves * 2, sizeof *paint->nodes);
	return paint->nodes ? 0 : -ENOMEM;
}

void paint_done(struct paint *paint)
{
	tm_free(paint->nodes);
	*paint = (struct paint){0};
}

/* The first request at or after an address. */
static size_t lower_bound(const struct paint *paint, uint64_t address)
{
	size_t low = 0, high = paint->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (paint->requests[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool paint_range(struct paint *paint, uint64_t start, uint64_t bytes, const struct paint_note *note)
{
	uint64_t end = bytes > UINT64_MAX - start ? UINT64_MAX : start + bytes;
	size_t low = lower_bound(paint, start), high = lower_bound(paint, end);
	if (low >= high)
		return false;
	struct paint_note kept = *note;
	kept.age = ++paint->age;
	kept.start = start;
	for (low += paint->leaves, high += paint->leaves; low < high; low /= 2, high /= 2) {
		if (low & 1)
			paint->nodes[low++] = kept;
		if (high & 1)
			paint->nodes[--high] = kept;
	}
	return true;
}

const struct paint_note *paint_find(const struct paint *paint, size_t request)
{
	const struct paint_note *best = NULL;
	for (size_t node = request + paint->leaves; node > 0; node /= 2)
		if (paint->nodes[node].age && (!best || paint->nodes[node].age > best->age))
			best = &paint->nodes[node];
	return best;
}

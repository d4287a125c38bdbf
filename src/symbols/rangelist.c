/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/rangelist.h"

#include <errno.h>
#include <stdlib.h>

#include "base/memory.h"

/* Ranges that begin before the address and end before it, too, are passed over so far. */
enum { LOOK_BACK = 1024 };

struct rangelist_entry {
	uint64_t low, high;
	uint64_t reach; /* the largest end up to here */
	uint32_t owner;
};

int rangelist_add(struct rangelist *ranges, uint64_t low, uint64_t high, uint32_t owner)
{
	if (ranges->count == ranges->room) {
		size_t room = ranges->room * 2 + 256;
		void *grown = tm_grow_array(ranges->list, room, sizeof *ranges->list);
		if (!grown)
			return -ENOMEM;
		ranges->list = grown;
		ranges->room = room;
	}
	ranges->list[ranges->count++] =
		(struct rangelist_entry){.low = low, .high = high, .owner = owner};
	return 0;
}

static int by_low(const void *left, const void *right)
{
	const struct rangelist_entry *a = left, *b = right;
	return (a->low > b->low) - (a->low < b->low);
}

void rangelist_sort(struct rangelist *ranges)
{
	if (ranges->count)
		qsort(ranges->list, ranges->count, sizeof *ranges->list, by_low);
	uint64_t reach = 0;
	for (size_t i = 0; i < ranges->count; i++) {
		if (ranges->list[i].high > reach)
			reach = ranges->list[i].high;
		ranges->list[i].reach = reach;
	}
}

void rangelist_done(struct rangelist *ranges)
{
	tm_free(ranges->list);
	*ranges = (struct rangelist){0};
}

/* Index one past the last that begins at or before the address. */
static size_t upper_bound(const struct rangelist *ranges, uint64_t address)
{
	size_t low = 0, high = ranges->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (ranges->list[middle].low <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

size_t rangelist_find(const struct rangelist *ranges, uint64_t address, uint32_t *ret_owners,
		      size_t max)
{
	size_t end = upper_bound(ranges, address), found = 0;
	for (size_t i = end; i-- > 0 && end - i <= LOOK_BACK && found < max;) {
		if (ranges->list[i].reach <= address)
			break;
		if (address < ranges->list[i].high)
			ret_owners[found++] = ranges->list[i].owner;
	}
	return found;
}

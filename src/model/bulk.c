/* SPDX-License-Identifier: Apache-2.0 */
#include "model/bulk.h"

#include <assert.h>
#include <sys/mman.h>

#include "base/memory.h"

enum { AREA_BYTES = 8 * BULK_PIECE_MAX };

struct bulk_area {
	struct bulk_area *next;
	void *memory;
};

/* Address space is asked for in one go; only what is touched becomes memory. */
static int add_area(struct bulk *bulk)
{
	struct bulk_area *area = tm_alloc(sizeof *area);
	if (!area)
		return -1;
	area->memory = tm_alloc(AREA_BYTES + BULK_PIECE_MAX);
	if (!area->memory) {
		tm_free(area);
		return -1;
	}
	uintptr_t start =
		((uintptr_t)area->memory + BULK_PIECE_MAX - 1) & ~(uintptr_t)(BULK_PIECE_MAX - 1);
	bulk->next = (char *)start;
	bulk->left_bytes = AREA_BYTES;
#ifdef MADV_HUGEPAGE
	/*
	 * Advice only: where it is refused the table is slower, not wrong. Not for the first area:
	 * to find and clear a huge page takes milliseconds, which a small table never earns.
	 */
	if (bulk->areas)
		(void)madvise(bulk->next, AREA_BYTES, MADV_HUGEPAGE);
#endif
	area->next = bulk->areas;
	bulk->areas = area;
	return 0;
}

void *bulk_take(struct bulk *bulk, size_t bytes)
{
	assert(bytes <= BULK_PIECE_MAX);
	bytes = (bytes + 63) & ~(size_t)63;
	if (bulk->left_bytes < bytes && add_area(bulk))
		return NULL;
	void *piece = bulk->next;
	bulk->next += bytes;
	bulk->left_bytes -= bytes;
	bulk->taken_bytes += bytes;
	return piece;
}

void bulk_done(struct bulk *bulk)
{
	while (bulk->areas) {
		struct bulk_area *next = bulk->areas->next;
		tm_free(bulk->areas->memory);
		tm_free(bulk->areas);
		bulk->areas = next;
	}
	*bulk = (struct bulk){0};
}

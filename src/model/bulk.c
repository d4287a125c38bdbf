/* SPDX-License-Identifier: Apache-2.0 */
#include "model/bulk.h"

#include <assert.h>
#include <sys/mman.h>

#include "base/memory.h"

enum {
	AREA_BYTES = 8 * BULK_PIECE_MAX,
	LARGE_BYTES = 40 << 20, /* of a table: from here on it earns huge pages at once */
};

struct bulk_area {
	struct bulk_area *next;
	void *memory;
};

/*
 * Huge pages for a table that has grown large. To find and clear one takes milliseconds, in which
 * the program may have to wait for us, and which a table of a few areas never earns: those get them
 * from the kernel's own thread, after they are full. Advice only: where it is refused the table is
 * slower, not wrong.
 */
static void advise(const struct bulk *bulk, char *full)
{
#ifdef MADV_HUGEPAGE
	if (full)
		(void)madvise(full, AREA_BYTES, MADV_HUGEPAGE);
	if (bulk->taken_bytes >= LARGE_BYTES)
		(void)madvise(bulk->next, AREA_BYTES, MADV_HUGEPAGE);
#else
	(void)bulk;
	(void)full;
#endif
}

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
	char *full = bulk->areas ? bulk->next + bulk->left_bytes - AREA_BYTES : NULL;
	uintptr_t start =
		((uintptr_t)area->memory + BULK_PIECE_MAX - 1) & ~(uintptr_t)(BULK_PIECE_MAX - 1);
	bulk->next = (char *)start;
	bulk->left_bytes = AREA_BYTES;
	advise(bulk, full);
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for large tables: pieces of up to 2 MiB cut from big areas that ask
 * for huge pages, since random access to hundreds of megabytes through 4 KiB
 * pages costs more in address translation than in the access itself. The first
 * areas of a table do so only when they are full. Pieces are never given back
 * one by one.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { BULK_PIECE_MAX = 2 * 1024 * 1024 };

struct bulk_area;
struct bulk {
	struct bulk_area *areas;
	char *next;
	size_t left_bytes;
	uint64_t taken_bytes; /* by pieces, for the model's own account */
};

/* Zeroed, aligned to 64 bytes; NULL without memory. */
void *bulk_take(struct bulk *bulk, size_t bytes) __attribute__((warn_unused_result));
void bulk_done(struct bulk *bulk);

/* SPDX-License-Identifier: Apache-2.0 */
/* What the allocator of a Nim program says to Tidemark: tidemark.nims puts the calls in. */
#pragma once

#include "tidemark.h"

/* One per file that includes this; the name makes them one heap. */
static struct tidemark_heap tidemark_nim_heap __attribute__((unused)) = TIDEMARK_HEAP("nim", NULL);

/* Macros: the function that calls is the allocator's own, and nothing is called in vain. */
#define tidemark_nim_alloc(block, bytes) \
	tidemark_heap_alloc(&tidemark_nim_heap, (block), (size_t)(bytes))
#define tidemark_nim_free(block) tidemark_heap_free(&tidemark_nim_heap, (block))
#define tidemark_nim_grow(start, bytes) \
	tidemark_heap_grow(&tidemark_nim_heap, (start), (size_t)(bytes))

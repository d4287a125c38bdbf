/* SPDX-License-Identifier: Apache-2.0 */
/* Strings kept once each, with one lifetime: that of the pool. */
#pragma once

#include <stddef.h>

struct strpool;

/* NULL when memory runs out. */
struct strpool *strpool_new(void);
struct strpool *strpool_free(struct strpool *pool);
/* The pool's own copy of text[0, bytes), terminated; the same pointer for the same text. NULL: no
 * memory. O(bytes). */
const char *strpool_intern(struct strpool *pool, const char *text, size_t bytes);

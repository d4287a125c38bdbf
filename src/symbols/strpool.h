/* SPDX-License-Identifier: Apache-2.0 */
/* Strings kept once each, with one lifetime: that of the pool. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct strpool;

/* NULL when memory runs out. */
struct strpool *strpool_new(void);
struct strpool *strpool_free(struct strpool *pool);
/* The pool's own copy of text[0, bytes), terminated; the same pointer for the same text. NULL: no
 * memory. O(bytes). */
const char *strpool_intern(struct strpool *pool, const char *text, size_t bytes);
/* Which of the pool's strings it is, from 0 on, in the order of their coming. O(1). */
uint32_t strpool_number(const char *interned);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tools' only way to the heap, so that a test can make allocation number N
 * fail. All return NULL on failure, never abort. Thread-safe. The agent uses
 * none of this.
 */
#pragma once

#include <stddef.h>

/* Zeroed memory, or NULL. tm_free() releases it. */
void *tm_alloc(size_t bytes) __attribute__((malloc, warn_unused_result));
/* count * bytes with overflow check, zeroed; NULL on overflow or failure. */
void *tm_alloc_array(size_t count, size_t bytes) __attribute__((malloc, warn_unused_result));
/* As realloc with overflow check; new memory beyond the old content is NOT zeroed. */
void *tm_grow_array(void *old, size_t count, size_t bytes) __attribute__((warn_unused_result));
char *tm_strdup(const char *text) __attribute__((malloc, warn_unused_result));
/* Accepts NULL, returns NULL: p = tm_free(p); */
void *tm_free(void *memory);

/*
 * For programs that run for long or hold much: large blocks, of so many bytes or more, are always
 * mapped, and go back to the system when they are freed. Else tables and buffers that grow on
 * several threads leave holes in the heap, which grow with the time.
 */
enum { TM_LARGE_BYTES = 128 << 10, TM_LARGE_FOR_WEEKS = 32 << 10 };
void tm_map_large_blocks(int bytes);

/* Test only: allocation number n from now (0 = the next) fails; -1 turns it off. */
void tm_alloc_fail_at(long n);

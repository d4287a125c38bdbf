/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memcpy, memmove, memset, memcmp and strlen for the agent: compilers emit
 * calls to the first four by themselves. Compiled into the agent only, with
 * hidden visibility, so that the target's own are neither used nor replaced.
 */
#pragma once

#include <stddef.h>

#pragma GCC visibility push(hidden)

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);
size_t strlen(const char *text);

#pragma GCC visibility pop

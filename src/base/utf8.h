/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 from unknown hands. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * The first character of `bytes` bytes at `in`: how many bytes it takes, 0 if
 * they do not begin with a valid one (cut off, overlong, surrogate, beyond
 * U+10FFFF); then *ret_code is untouched. Thread-safe. O(1).
 */
size_t utf8_get(const void *in, size_t bytes, uint32_t *ret_code);

/* Characters in the text, each invalid byte counted as one: for columns. O(bytes). */
size_t utf8_count(const void *in, size_t bytes);

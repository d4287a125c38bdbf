/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures as people read and write them. Output is decimal with three digits
 * that count ("1.20 GB", "34.5 M", "12.0 ms"); input takes "64K" and "64KiB" as
 * 65,536 and "64kB" as 64,000, as GNU tools do. Thread-safe.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

enum { UNITS_TEXT_BYTES = 24 };

/* A figure as text, by value: printf("%s\n", units_bytes(n).text). */
struct units_text {
	char text[UNITS_TEXT_BYTES];
};

struct units_text units_bytes(uint64_t bytes);          /* 512 B, 1.20 GB */
struct units_text units_count(uint64_t count);          /* 999, 3.40 M */
struct units_text units_grouped(uint64_t count);        /* 3,400,000 */
struct units_text units_duration(uint64_t nanoseconds); /* 12.0 ms, 5.00 s, 3 min 05 s, 2 d 04 h */

/*
 * "64K", "1.5 GiB", "100MB", "4096". 0, or -EINVAL when it is no size, -ERANGE
 * when it exceeds 64 bits; err then has the sentence.
 */
int units_parse_bytes(const char *text, uint64_t *ret_bytes, struct tm_error *err) TM_MUST_CHECK;

/* "5s", "250ms", "1.5h", "10" (seconds). As above. */
int units_parse_duration(const char *text, uint64_t *ret_ns, struct tm_error *err) TM_MUST_CHECK;

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of code that a program made while it ran. Two files tell them:
 *
 *   /tmp/perf-PID.map   lines "START SIZE NAME", the last that covers an address wins
 *   jit-PID.dump        records with times, so that reused addresses are told apart
 *
 * Both are written by others: sizes, numbers and names are believed by nobody.
 * Memory is bounded by the number of requests, time by that and the bytes read.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JIT_NAME_MAX = 4096 }; /* of a name or path, cut beyond */

/* An address to be named, and when it was seen (CLOCK_MONOTONIC). */
struct jit_request {
	uint64_t address;
	uint64_t time_ns;
};

struct jit_name {
	char function[JIT_NAME_MAX]; /* readable; never "" */
	char file[JIT_NAME_MAX];     /* "" = unknown */
	uint32_t line, column;       /* 0 = unknown */
};

/* Told of each request that has a name; in no order. Not 0 ends the reading with that value. */
typedef int (*jit_found_fn)(void *ctx, size_t request, const struct jit_name *name);

/*
 * Requests must be sorted by address. 0, -ENOMEM, -EBADMSG for a file that is
 * none (a damaged one is read up to the damage), or an error of reading.
 */
TM_MUST_CHECK int jit_read_map(int fd, const struct jit_request *requests, size_t count,
			       jit_found_fn found, void *ctx);
TM_MUST_CHECK int jit_read_dump(int fd, const struct jit_request *requests, size_t count,
				jit_found_fn found, void *ctx);

/*
 * Makes a name of V8's readable: "LazyCompile:*add /app/sum.js:3:12" becomes
 * "add [optimized]" in line 3 of /app/sum.js. Other names are copied.
 */
void jit_readable(const char *raw, size_t bytes, struct jit_name *ret_name);

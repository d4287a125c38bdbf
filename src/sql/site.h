/* SPDX-License-Identifier: Apache-2.0 */
/* Names of stacks; sql_load_names() comes first. */
#pragma once

#include "base/text.h"
#include "sql/state.h"

#include <sqlite3.h>

enum { SITE_BYTES = 160 };

struct site {
	const char *text;   /* the function, or "[libfoo.so]" if it has no name; into the rest */
	const char *module; /* path, or NULL for the empty stack */
	char own[SITE_BYTES];
};

/* The innermost frame that is no allocator's. */
void site_find(const struct sql *sql, uint32_t stack_id, struct site *ret);
/* The site as a result of SQLite. */
void site_put(sqlite3_context *ret, const struct sql *sql, uint32_t stack_id);
/* Appends "inner < outer < ...", at most `limit` frames (0 = all) from the site on. */
void site_put_stack(struct text *text, const struct sql *sql, uint32_t stack_id, uint64_t limit);

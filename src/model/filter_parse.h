/* SPDX-License-Identifier: Apache-2.0 */
/* One term of a filter, from its text. */
#pragma once

#include "model/filter_terms.h"

/* Where the parser stands in the text. */
struct filter_cursor {
	const char *text;
	size_t at;
	size_t wrong; /* where the error is */
	struct tm_error *err;
};

void filter_skip_blanks(struct filter_cursor *c);
/* -EINVAL at byte `at`. */
int filter_wrong(struct filter_cursor *c, size_t at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Reads one term ("size>=4K", "parse", "temporary") into *term, which is zeroed. */
TM_MUST_CHECK int filter_read_term(struct filter_cursor *c, struct filter_term *term);
void filter_term_done(struct filter_term *term);

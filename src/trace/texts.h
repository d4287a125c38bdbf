/* SPDX-License-Identifier: Apache-2.0 */
/* An arena of texts that are freed together. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct texts_chunk;
struct texts {
	struct texts_chunk *chunks;
	bool failed; /* no memory: sticky */
};

/* A terminated copy, cut at an embedded NUL; NULL without memory. */
const char *texts_add(struct texts *t, const char *text, size_t length);
void texts_done(struct texts *t);

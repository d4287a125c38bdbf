/* SPDX-License-Identifier: Apache-2.0 */
/* The environment that the image was started with; the program's own changes do not matter. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct environment {
	char *block; /* NAME=value, each ended by a NUL */
	size_t bytes;
};

/* False: it cannot be read. */
bool environment_read(struct environment *ret);
void environment_done(struct environment *environment);
/* The value, borrowed; NULL: not there. */
const char *environment_find(const struct environment *environment, const char *name);

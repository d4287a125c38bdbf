/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that were given about one state of a trace, for who asks the same again: many
 * clients of one page do. Bounded; of more, those that were asked least lately go.
 * Thread-safe.
 */
#pragma once

#include "base/text.h"
#include "server/request.h"

#include <stdbool.h>

struct kept;

/* NULL when there is no memory; all below accept NULL and then keep nothing. */
struct kept *kept_new(void);
struct kept *kept_free(struct kept *kept);

/* The answer to this path (below the trace) and these parameters, put into ret_body. */
bool kept_find(struct kept *kept, const char *path, const struct request *request,
	       struct text *ret_body);
/* Keeps a copy, if it is not too large. */
void kept_put(struct kept *kept, const char *path, const struct request *request,
	      const struct text *body);

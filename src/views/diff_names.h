/* SPDX-License-Identifier: Apache-2.0 */
/* Names that mean the same in two builds, each once. */
#pragma once

#include "base/error.h"
#include "base/idmap.h"

struct diff_names { /* start with {0} */
	char **texts;
	size_t count, room;
	struct idmap map;
};

/* The number of a function's name; NULL: of the module's ("[libfoo.so]"). -ENOMEM. */
TM_MUST_CHECK int diff_names_frame(struct diff_names *names, const char *function,
				   const char *module, uint32_t *ret_id);
/* Hands the texts over. */
void diff_names_take(struct diff_names *names, char ***ret_texts, size_t *ret_count);
void diff_names_done(struct diff_names *names);
/* How much of a function's name its author wrote: without ".part.0", ".cold" and the like. */
size_t diff_names_bytes(const char *function);

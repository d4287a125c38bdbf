/* SPDX-License-Identifier: Apache-2.0 */
/* Texts with numbers, given in order of appearance from 0. */
#pragma once

#include "base/error.h"
#include "base/idmap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strings {           /* start with {0} */
	const char **list; /* borrowed */
	size_t count, room;
	struct idmap map;
};

/* The number of a text, which is borrowed. It is new if it is the last. -ENOMEM. */
TM_MUST_CHECK int strings_number(struct strings *strings, const char *text, uint32_t *ret_number);
/* The same without adding it: false if it is not there. */
bool strings_find(const struct strings *strings, const char *text, uint32_t *ret_number);
void strings_done(struct strings *strings);

/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of kinds as text and as values; kinds.c uses them. */
#pragma once

#include "symbols/kinds.h"

enum {
	RULES_BYTES_MAX = 1 << 20, /* of a file */
	RULES_COUNT_MAX = 10000,
	RULES_LINE_MAX = 4096,
};

/* Text with `*` for any run of characters. NULL = anything will do. */
struct rules_pattern {
	const char *text; /* `\` before a character: that character itself */
	uint32_t literal; /* bytes before the first `*` or `\` */
};

struct rules_rule {
	enum frame_kind kind;
	struct rules_pattern function, file, module, package;
	const char *as; /* the package it gives; NULL = what it would be */
};

struct rules {
	struct rules_rule *list;
	size_t count, room;
	char *texts; /* what the patterns point into */
};

/* Reads a whole text. -EINVAL with line and reason, -EFBIG, -ENOMEM: *ret_rules is untouched. */
TM_MUST_CHECK int rules_parse(const char *name, const char *text, size_t bytes,
			      struct rules *ret_rules, struct tm_error *err);
void rules_done(struct rules *rules);

/* O(pattern * text) at worst. */
bool rules_match(const struct rules_pattern *pattern, const char *text);

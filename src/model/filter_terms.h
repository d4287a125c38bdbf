/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the filter share: a filter is a list of terms and a program
 * in postfix order that combines them.
 */
#pragma once

#include "model/filter.h"

#include <regex.h>

enum filter_key {
	/* names of frames */
	FILTER_FUNCTION,
	FILTER_SITE,
	FILTER_FILE,
	FILTER_MODULE,
	FILTER_PACKAGE,
	FILTER_HEAP,
	FILTER_TAG,
	/* the allocating thread */
	FILTER_THREAD,
	/* numbers */
	FILTER_SIZE,
	FILTER_LIFETIME,
	FILTER_AGE,
	FILTER_TIME,
	FILTER_ADDRESS,
	/* one of a few words */
	FILTER_KIND,
	FILTER_API,
	/* yes or no */
	FILTER_TEMPORARY,
	FILTER_UNFREED,
	FILTER_FOREIGN,
	FILTER_KEY_COUNT,
};

enum filter_sort { FILTER_TEXT, FILTER_NUMBER, FILTER_WORD, FILTER_FLAG };

struct filter_key_facts {
	const char *name, *alias;
	enum filter_sort sort;
};
extern const struct filter_key_facts filter_keys[FILTER_KEY_COUNT];

enum filter_how { FILTER_CONTAINS, FILTER_GLOB, FILTER_EXACT, FILTER_REGEX };

struct filter_term {
	enum filter_key key;
	bool negated; /* the term's own "!=" */
	/* text */
	enum filter_how how;
	char *text; /* for FILTER_TIME the lower moment, or NULL */
	char *text_high;
	bool ignore_case;
	bool regex_made;
	regex_t regex;
	/* number, both ends included; FILTER_KIND, FILTER_API: low is the word */
	uint64_t low, high;
	bool above, below; /* FILTER_TIME: the moment itself is left out */
};

enum filter_op { FILTER_OP_TERM, FILTER_OP_AND, FILTER_OP_OR, FILTER_OP_NOT };
struct filter_step {
	uint8_t op; /* enum filter_op */
	uint8_t term;
};

enum { FILTER_STEPS_MAX = 4 * FILTER_TERMS_MAX, FILTER_DEPTH_MAX = 48, FILTER_TEXT_MAX = 4096 };

struct filter {
	struct filter_term terms[FILTER_TERMS_MAX];
	size_t term_count;
	struct filter_step steps[FILTER_STEPS_MAX];
	size_t step_count;
};

enum filter_kind { FILTER_KIND_HEAP, FILTER_KIND_MAPPED, FILTER_KIND_CUSTOM, FILTER_KIND_COUNT };
extern const char *const filter_kinds[FILTER_KIND_COUNT];
extern const char *const filter_apis[TRACE_API_COUNT];

static inline bool filter_is_name(enum filter_key key)
{
	return key <= FILTER_TAG;
}

/* Whether a text term takes this name. NULL never matches. */
bool filter_term_takes(const struct filter_term *term, const char *name);

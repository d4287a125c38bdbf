/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request as the handlers see it: the part of the path that names a trace, and
 * the parameters. Every parameter is declared by the route; one that is not, or
 * has a value of the wrong form, is refused before the handler runs.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REQUEST_PARAMS_MAX = 32 };

struct request_param {
	const char *name, *value; /* decoded; borrowed */
};

struct request {
	const char *method; /* "GET" */
	const char *path;   /* decoded, without the query */
	const char *trace;  /* what stands for {trace} in the route; "" = nothing */
	const char *item;   /* for {item} */
	char names[2][128]; /* where the two above are kept */
	struct request_param params[REQUEST_PARAMS_MAX];
	size_t param_count;
};

/* The value, or NULL. */
const char *request_find(const struct request *request, const char *name);
/* The value or, when there is none, the other. */
const char *request_text(const struct request *request, const char *name, const char *otherwise);
/* Values that the route has checked already. */
uint64_t request_number(const struct request *request, const char *name, uint64_t otherwise);
bool request_bool(const struct request *request, const char *name);
/* Which of the route's choices; 0 when not given. */
size_t request_choice(const struct request *request, const char *name, const char *choices);

enum request_kind {
	REQUEST_TEXT,
	REQUEST_NUMBER, /* up to `max` */
	REQUEST_BOOL,   /* 1, true, yes, 0, false, no */
	REQUEST_CHOICE, /* one of `choices`, separated by '|'; the first is the default */
};
struct request_rule {
	const char *name;
	enum request_kind kind;
	uint64_t max; /* of a number; of a text its bytes, 0 = 4096 */
	const char *choices;
	const char *help;
};
/* -EINVAL with a sentence that names the parameter. */
TM_MUST_CHECK int request_check(const struct request_param *param, const struct request_rule *rule,
				struct tm_error *err);

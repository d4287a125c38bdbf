/* SPDX-License-Identifier: Apache-2.0 */
/* What part of a trace a request is about: range, filter, mode, folded kinds. */
#pragma once

#include "server/route.h"
#include "server/shown.h"

struct selection {
	uint64_t from_ns, to_ns;
	struct filter *filter;      /* NULL: none */
	struct filter_bound *bound; /* NULL: none */
	const struct view_mode *mode;
	unsigned fold; /* of view_data_fold() */
	bool is_held;  /* the mode "held": sizes are weighted with lifetimes */
	bool is_whole; /* neither range nor filter */
};

/* Reads the parameters of the request; the facts are locked. -EINVAL with a sentence. */
TM_MUST_CHECK int selection_init(struct selection *selection, const struct call *call,
				 struct tm_error *err);
void selection_done(struct selection *selection);

/* Keys "from_ns", "to_ns" into the open object. */
void selection_put(const struct selection *selection, struct json *json);

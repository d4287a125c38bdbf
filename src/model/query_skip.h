/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which blocks of events a scan can leave out: those in which nothing chosen can
 * be born, as their headers say, and nothing ends that may have been chosen
 * before, as the headers of their ENDS say.
 */
#pragma once

#include "model/query_section.h"

struct skip_plan {
	bool *skip;  /* per part */
	bool active; /* else every part must be looked at */
};

/* 0 or -ENOMEM. */
TM_MUST_CHECK int skip_plan_make(const struct query_section *section,
				 const struct filter_bound *filter, struct skip_plan *ret);
void skip_plan_done(struct skip_plan *plan);
/* For struct event_scan; ctx is the plan. */
bool skip_plan_skips(const void *ctx, size_t index);

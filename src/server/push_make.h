/* SPDX-License-Identifier: Apache-2.0 */
/* One profile to be pushed: the trace as it is now, in pprof's form. */
#pragma once

#include "base/error.h"
#include "server/push_queue.h"
#include "server/shown.h"

/*
 * target: of the address, with {program}, {pid}, {host}, {from}, {until} in it.
 * from, until: seconds since 1970, of what is new in it. The facts must be locked.
 */
TM_MUST_CHECK int push_make(const struct shown_facts *facts, const char *target, uint64_t from_s,
			    uint64_t until_s, struct push_item *ret_item, struct tm_error *err);

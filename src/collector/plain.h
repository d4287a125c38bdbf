/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --or-run: a program that cannot be recorded runs all the same, and the user is told why nothing
 * is recorded. Before it is forked it takes our place; later it is let go without an agent.
 */
#pragma once

#include "collector/session.h"

/* The program runs unrecorded, as --or-run wants it: why. */
void plain_tell(struct session *session, const struct tm_error *why);
/* Before it is forked: it takes our place, once *err has been told. Comes back only on failure. */
TM_MUST_CHECK int plain_replace(struct session *session, int *ret_exit_status,
				struct tm_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
/* Options from the environment: --time-limit is TIDEMARK_TIME_LIMIT. */
#pragma once

#include "cli/args.h"

/* False after a message. */
typedef bool (*variables_take_fn)(void *ctx, const struct args *args, int id, const char *value);

/*
 * Takes each option of args->options that has a variable: all but those that say
 * what to do rather than how (help, pid, dry-run). One that is only there or not
 * is 1 or 0. False after a message that names the variable.
 */
bool variables_read(const struct args *args, variables_take_fn take, void *ctx);

/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that could be recorded: those whose agent sleeps, and those that can be entered. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process_row {
	pid_t pid;
	uint64_t age_ns;
	bool dormant;      /* an agent sleeps in it */
	bool attachable;   /* or it can be entered */
	char program[256]; /* path, or the name where that cannot be read */
	char why[400];     /* why not, or "" */
};

struct processes {
	struct process_row *rows; /* by pid */
	size_t count;
};

/* Of this user (root: of all), without kernel threads, tidemarks, and those in `skip`. */
TM_MUST_CHECK int processes_find(const pid_t *skip, size_t skip_count, struct processes *ret,
				 struct tm_error *err);
void processes_done(struct processes *processes);

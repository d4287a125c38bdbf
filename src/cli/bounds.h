/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps a recording of days small, as 'run' and 'attach' take it from their command lines. */
#pragma once

#include "cli/args.h"
#include "collector/collector.h"

#include <stdbool.h>

enum bounds_option {
	BOUNDS_ROTATE = 200,
	BOUNDS_KEEP,
	BOUNDS_RETAIN,
	BOUNDS_CULL,
	BOUNDS_MAX_MEMORY,
	BOUNDS_END
};

/* Rows for a table of options. */
#define BOUNDS_ROTATE_HELP \
	"go on in a new file after 30m, 2h, or when one has 500M, 1G; %i is its number"
#define BOUNDS_KEEP_HELP "with --rotate: keep the last N files, delete older ones of this recording"
#define BOUNDS_RETAIN_HELP                                                                     \
	"single events of the last 10m, 2h, or as many as fit into a file of 500M, 1G; older " \
	"ones stay in all figures"
#define BOUNDS_CULL_HELP                                                                       \
	"blocks that live shorter than LIFETIME, as 1ms, 100us, are counted in full, but not " \
	"stored one by one"
#define BOUNDS_MEMORY_HELP \
	"memory that tidemark itself may take, as 64M, 1G; near it, it gives things up"
#define BOUNDS_OPTIONS                                                    \
	{BOUNDS_MAX_MEMORY, 0, "max-memory", "SIZE", BOUNDS_MEMORY_HELP}, \
		{BOUNDS_ROTATE, 0, "rotate", "WHEN", BOUNDS_ROTATE_HELP}, \
		{BOUNDS_KEEP, 0, "keep", "N", BOUNDS_KEEP_HELP},          \
		{BOUNDS_CULL, 0, "cull", "LIFETIME", BOUNDS_CULL_HELP},   \
	{                                                                 \
		BOUNDS_RETAIN, 0, "retain", "WINDOW", BOUNDS_RETAIN_HELP  \
	}

/* One of them; false after a message on standard error. */
bool bounds_take(struct collector_bounds *bounds, const struct args *args, int id,
		 const char *value);
/* All that was said fits together; false after a message. */
bool bounds_check(const struct collector_bounds *bounds, const char *command);

/* SPDX-License-Identifier: Apache-2.0 */
/* How to record, as far as 'run' and 'attach' take it alike from their command lines. */
#pragma once

#include "cli/args.h"
#include "cli/bounds.h"
#include "cli/run_serve.h"
#include "cli/sampling.h"
#include "collector/collector.h"
#include "inject/plan_hook.h"

#include <stdbool.h>

struct record_options {
	struct collector_options run;
	struct plan_hooks hooks;
	struct run_servers servers;
	const char *log;
	bool quiet, daemon, help;
};

/* Those of bounds.h belong to them, too. */
enum record_option {
	RECORD_OUTPUT = 100,
	RECORD_FORCE,
	RECORD_QUIET,
	RECORD_TIME_LIMIT,
	RECORD_MAX_FILE_SIZE,
	RECORD_SAMPLE,
	RECORD_MAX_OVERHEAD,
	RECORD_ON_OVERLOAD,
	RECORD_OVERLOAD_SHARE,
	RECORD_SEED,
	RECORD_DEPTH,
	RECORD_FREE_STACKS,
	RECORD_NO_ADDRESSES,
	RECORD_NO_SYMBOLS,
	RECORD_EMBED_SOURCE,
	RECORD_HOOK,
	RECORD_SERVE,
	RECORD_LISTEN,
	RECORD_METRICS,
	RECORD_PUSH,
	RECORD_PUSH_INTERVAL,
	RECORD_DAEMON,
	RECORD_LOG,
	RECORD_HELP,
};

/* Rows for a table of options: what is recorded of each event, and how much is stored. */
#define RECORD_OPTIONS                                                                      \
	BOUNDS_OPTIONS, {RECORD_SAMPLE, 0, "sample", "[BYTES]", SAMPLING_HELP},             \
		{RECORD_MAX_OVERHEAD, 0, "max-overhead", "SHARE", SAMPLING_OVERHEAD_HELP},  \
		{RECORD_ON_OVERLOAD, 0, "on-overload", "WHAT", SAMPLING_OVERLOAD_HELP},     \
		{RECORD_OVERLOAD_SHARE, 0, "overload-share", "SHARE", SAMPLING_SHARE_HELP}, \
		{RECORD_SEED, 0, "seed", "N", NULL},                                        \
		{RECORD_DEPTH, 0, "depth", "N",                                             \
		 "frames kept of each stack (default and most: 1024)"},                     \
		{RECORD_FREE_STACKS, 0, "free-stacks", NULL,                                \
		 "also record where blocks are freed"},                                     \
		{RECORD_NO_ADDRESSES, 0, "no-addresses", NULL,                              \
		 "leave the blocks' addresses out of the file"},                            \
		{RECORD_NO_SYMBOLS, 0, "no-symbols", NULL,                                  \
		 "leave the functions' names out of the file"},                             \
	{                                                                                   \
		RECORD_EMBED_SOURCE, 0, "embed-source", NULL,                               \
			"put the text of the source lines that allocate into the file, too" \
	}

/* One of them; false after a message on standard error. */
bool record_options_take(struct record_options *record, const struct args *args, int id,
			 const char *value);
/* All that was said fits together; false after a message. */
bool record_options_check(const struct record_options *record, const char *command);
